"""MLflow's own API at a tracking server, as SageMaker's plugin for MLflow sends it.

The plugin (PyPI: sagemaker-mlflow) signs for the service sagemaker-mlflow and names the server in a
header. It sends to `https://REGION.experiments.sagemaker.aws`, or to where the variable
SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT points.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from shoal_local.control.authorization.authorizer import Authorizer
from shoal_local.control.protocol import Answer, ApiCall, error_answer
from shoal_local.control.sagemaker import SageMaker, request_headers
from shoal_local.control.service_router import Reply
from shoal_local.errors import AwsError

SERVICE = "sagemaker-mlflow"
_API = "/api/"
_ACTIONS = Path(__file__).with_name("mlflow_actions.yaml")


@dataclass(frozen=True)
class MlflowGateway:
    """Passes requests on to the tracking servers of the account."""

    sagemaker: Callable[[], SageMaker]
    authorizer: Authorizer

    def __call__(self, environ: dict[str, Any], call: ApiCall, body: bytes) -> Reply:
        method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO", "")
        headers = request_headers(environ)
        arn = headers.get("x-mlflow-sm-tracking-server-arn", "")
        call = self.authorizer.with_questions(
            replace(call, operation=action_of(method, path), parameters={"TrackingServerArn": arn})
        )
        try:
            self.authorizer.check(call)
            _check_path(path)
            status, more, answer = self.sagemaker().call_tracking_server(
                arn, method, environ.get("RAW_URI") or path, body, headers
            )
        except AwsError as error:
            return Reply(call, error_answer(error, "rest-json"), error.code)
        return Reply(call, Answer(status, more, answer))


def _check_path(path: str) -> None:
    if not path.startswith(_API):
        raise AwsError("NotFound", f"MLflow's API has no {path}", 404)


def action_of(method: str, path: str) -> str:
    """Return the IAM action of a request; "" if AWS documents none."""
    for pattern, actions in _patterns():
        if pattern.fullmatch(path):
            return actions.get(method, "")
    return ""


@cache
def _patterns() -> list[tuple[re.Pattern[str], Mapping[str, str]]]:
    """Return the paths as expressions, those without a * first."""
    table: dict[str, dict[str, str]] = yaml.safe_load(_ACTIONS.read_text())
    plain_first = sorted(table.items(), key=lambda item: "*" in item[0])
    return [
        (re.compile(re.escape(f"/api/2.0/mlflow/{path}").replace(r"\*", "[^/]+")), actions)
        for path, actions in plain_first
    ]
