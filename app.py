"""The CDK entry: environment files in, a cloud assembly out.

`cdk ... -c environment=dev` takes one environment instead of all, `-c strategy=horovod` lays
environments/strategies/horovod.yaml over it.
"""

from __future__ import annotations

import gc
import json
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from stacks.node import use_installed_node
from stacks.validation.validator import started

if TYPE_CHECKING:
    from stacks.validation.validator import Validator

ROOT = Path(__file__).resolve().parent
PLAIN = ("config.loader", "pipelines.check", "botocore.loaders", "botocore.model")
SERVICES = (
    "aws_ec2",
    "aws_lambda",
    "aws_cloudwatch_actions",
    "aws_events_targets",
    "aws_sagemaker",
    "aws_s3",
    "aws_kms",
    "aws_sqs",
    "aws_logs",
)
"""Of the CDK, the large ones that every environment has."""


def main() -> int:
    # this process lives for seconds, and importing the CDK makes more objects than it ever frees
    gc.disable()
    use_installed_node()
    with started() as validator:
        import_module(
            "jsii"
        )  # before there are two threads: below they have nothing to import in common but the CDK
        python = threading.Thread(target=read_python)
        python.start()
        load_library()
        python.join()
        return synth(validator)


def load_library() -> None:
    """Start Node.js, and let it load the CDK's library, cdk-nag's rules and the largest of the
    services.
    """
    for name in ("aws_cdk", "cdk_nag"):
        import_module(name)
    import_module("aws_cdk.aws_ec2").Port.tcp(
        443
    )  # any call does: the service is loaded with the first


def read_python() -> None:
    """Meanwhile, what Python has to read.

    Nothing that may speak to Node.js, which has one pipe: so none of our stacks.
    """
    for name in (*PLAIN, *(f"aws_cdk.{service}" for service in SERVICES)):
        import_module(name)


def synth(validator: Validator | None) -> int:
    from config.consumers import consumers_of
    from config.errors import ConfigError
    from config.loader import environment_names, load_environment
    from stacks.app import ShoalApp

    # The CLI hands the feature flags over by itself; `python app.py` without the CLI gets the same
    # ones.
    app = ShoalApp(
        context=json.loads((ROOT / "cdk.json").read_text())["context"], validator=validator
    )
    chosen, strategy = (app.node.try_get_context(key) for key in ("environment", "strategy"))
    try:
        environments = [
            load_environment(name, ROOT, strategy)
            for name in ([chosen] if chosen else environment_names(ROOT))
        ]
        for environment in environments:
            for notice in app.add_environment(
                environment, root=ROOT, strategy=strategy, consumers=consumers_of(environment, ROOT)
            ):
                print(f"{environment.name}: {notice}", file=sys.stderr)
        if not chosen:  # it belongs to an account, not to one of its environments
            app.add_delivery(environments)
            app.add_release_pipelines(environments)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    app.synth()
    return 0


if __name__ == "__main__":
    sys.exit(main())
