"""The constructs of which `stacks/` is wired, one folder per capability.

Importing it chooses the Node.js that the CDK's library runs on, so it comes before `aws_cdk`.
"""

from shoal.constructs.node import use_installed_node

use_installed_node()
