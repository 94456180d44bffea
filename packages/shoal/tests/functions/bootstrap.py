"""What Lambda's bootstrap does: import a handler, call it, report what it raised.

A process that has imported this module and boto3 forks for each invocation
(packages/shoal/tests/functions/ invocation.py): boto3 and its models of the services take longer
than most handlers.
"""

import json
import os
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import boto3
import botocore.session

SHARED = str(Path(__file__).parents[2] / "src" / "shoal" / "functions" / "seal")
"""What other folders' functions share with it is packed with them (constructs/functions.yaml)."""
_MODELS = ("cloudformation", "cloudwatch", "s3", "sagemaker", "sagemaker-runtime", "sqs")

_core = botocore.session.Session()
boto3.setup_default_session(botocore_session=_core)
_loader = _core.get_component("data_loader")
_loader.load_data("endpoints")
for _service in _MODELS:
    _loader.load_service_model(_service, "service-2")


@dataclass(frozen=True)
class Context:
    """As much of Lambda's context as the handlers use."""

    remaining_ms: int
    aws_request_id: str = "00000000-0000-0000-0000-000000000000"

    def get_remaining_time_in_millis(self) -> int:
        return self.remaining_ms


def run(
    folder: Path,
    module: str,
    event: dict[str, Any],
    remaining_ms: int,
    environment: dict[str, str],
    output: Path,
) -> None:
    """Call `handler` of `folder/module.py`; write what it returns or raises, and its log."""
    os.environ.clear()
    os.environ.update(environment)
    with (output / "log").open("w") as log:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(log.fileno(), stream.fileno())
    sys.dont_write_bytecode = True
    sys.path[:0] = [str(folder), SHARED]
    outcome = {}
    try:
        outcome["result"] = import_module(module).handler(event, Context(remaining_ms))
    except Exception as error:  # noqa: BLE001 - whatever it is, Lambda reports it
        outcome["error"] = f"{type(error).__name__}: {error}"
    (output / "outcome.json").write_text(json.dumps(outcome))
