"""Send a request to a running endpoint: any body, a workload's own, or a digit of the test set."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config.smoke_test import Accept, Request
from shoal.verbs.dataset import Digit
from shoal.verbs.errors import NotFoundError, ShoalError
from shoal.verbs.target import Target


@dataclass(frozen=True)
class Answer:
    """The endpoint's answer about a digit."""

    endpoint: str
    label: int
    digit: int
    probabilities: tuple[float, ...]
    model: dict[str, Any]
    latency_ms: float


def find_endpoint(target: Target, prefix: str, serving: str | None = None) -> str:
    """Return the newest endpoint in service with that prefix, else the endpoint `serving`.

    Raises NotFoundError.
    """
    request = {
        "NameContains": serving or prefix,
        "StatusEquals": "InService",
        "SortBy": "CreationTime",
        "SortOrder": "Descending",
    }
    pages = target.client("sagemaker").get_paginator("list_endpoints").paginate(**request)
    names = [str(endpoint["EndpointName"]) for page in pages for endpoint in page["Endpoints"]]
    for name in (
        *(name for name in names if name.startswith(prefix)),
        *(name for name in names if name == serving),
    ):
        return name
    where = f"no endpoint {prefix}* is in service in {target.description}"
    served = f", nor {serving}, which would serve a pinned release" if serving else ""
    raise NotFoundError(
        f"{where}{served}; the pipeline tears its own down at the end of each execution"
    )


def send(target: Target, endpoint: str, body: bytes, content_type: str, accept: str) -> bytes:
    """Send the body as it is, and return the answer as it is."""
    response = target.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=endpoint, ContentType=content_type, Accept=accept, Body=body
    )
    answer: bytes = response["Body"].read()
    return answer


def model_of(target: Target, endpoint: str, request: Request, folder: Path) -> dict[str, Any]:
    """Return what the answer to a request of the workload in `folder` says of its model.

    Raises ShoalError if the answer is no JSON object.
    """
    body = (folder / request.body).read_bytes()
    answer = send(target, endpoint, body, request.content_type, Accept.JSON)
    try:
        document = json.loads(answer)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ShoalError(f"endpoint {endpoint} answered with no JSON object: {answer[:200]!r}")
    model = document.get("model")
    return model if isinstance(model, dict) else {}


def ask(target: Target, endpoint: str, digit: Digit, patience_s: float | None = None) -> Answer:
    """Send one image as JSON; with `patience_s`, once and no longer (Target.client).

    Raises ShoalError if the answer is not one prediction of ten probabilities.
    """
    body = json.dumps({"instances": [digit.rows]})
    started_at = time.monotonic()
    response = target.client("sagemaker-runtime", patience_s).invoke_endpoint(
        EndpointName=endpoint, ContentType="application/json", Accept="application/json", Body=body
    )
    payload = response["Body"].read()
    latency_ms = (time.monotonic() - started_at) * 1000
    try:
        answer = json.loads(payload)
        (prediction,) = answer["predictions"]
        probabilities = tuple(float(value) for value in prediction["probabilities"])
        return Answer(
            endpoint,
            digit.label,
            int(prediction["digit"]),
            probabilities,
            dict(answer.get("model", {})),
            latency_ms,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ShoalError(
            f"endpoint {endpoint} gave an answer of another shape ({error!r}): {payload[:200]!r}"
        ) from error
