"""The CDK's entry point: writes the templates of all environments.

`cdk ... -c environment=dev` takes one environment, `-c strategy=horovod` lays
environments/strategies/horovod.yaml over it.
"""

import sys
from pathlib import Path

from shoal.constructs.app import ShoalApp, feature_flags  # starts the Node.js of the CDK's library
from stacks.delivery import DeliveryStack
from stacks.platform import EnvironmentStage

if __name__ == "__main__":
    root = Path(__file__).resolve().parent
    app = ShoalApp(stage=EnvironmentStage, delivery=DeliveryStack, context=feature_flags(root))
    sys.exit(app.synthesise(root))
