"""Send a request to a running endpoint: any body, or one of a workload's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shoal.aws.target import Target, items
from shoal.errors import NotFoundError, ShoalError
from shoal.settings.sections.smoke_test import Accept, Request


def find_endpoint(target: Target, prefix: str, serving: str | None = None) -> str:
    """Return the newest endpoint in service with that prefix, else the endpoint `serving`.

    Raises NotFoundError.
    """
    newest_first = {"SortBy": "CreationTime", "SortOrder": "Descending"}
    request = {"NameContains": serving or prefix, "StatusEquals": "InService", **newest_first}
    endpoints = items(target.client("sagemaker"), "list_endpoints", "Endpoints", **request)
    names = [str(endpoint["EndpointName"]) for endpoint in endpoints]
    of_executions = [name for name in names if name.startswith(prefix)]
    if of_executions or serving in names:
        return of_executions[0] if of_executions else str(serving)
    served = f", nor {serving}, which would serve a pinned release" if serving else ""
    raise NotFoundError(
        f"no endpoint {prefix}* is in service in {target.description}{served}; the pipeline tears"
        " its own down at the end of each execution, so ask while one runs, or have a release"
        " served (`shoal promote`)"
    )


def send(
    target: Target,
    endpoint: str,
    body: bytes,
    content_type: str,
    accept: str,
    patience_s: float | None = None,
) -> bytes:
    """Send the body as it is, and return the answer as it is; with `patience_s`, once and no longer
    (Target.client).
    """
    response = target.client("sagemaker-runtime", patience_s).invoke_endpoint(
        EndpointName=endpoint, ContentType=content_type, Accept=accept, Body=body
    )
    answer: bytes = response["Body"].read()
    return answer


def stream(
    target: Target, endpoint: str, body: bytes, content_type: str, accept: str
) -> Iterator[bytes]:
    """Send the body as it is, and yield the answer's parts as they arrive."""
    response = target.client("sagemaker-runtime").invoke_endpoint_with_response_stream(
        EndpointName=endpoint, ContentType=content_type, Accept=accept, Body=body
    )
    for event in response["Body"]:
        yield event["PayloadPart"]["Bytes"]


def model_of(
    target: Target, endpoint: str, request: Request, folder: Path, patience_s: float | None = None
) -> dict[str, Any]:
    """Return what the answer to a request of the workload in `folder` says of its model; with
    `patience_s`, it is asked once and no longer.

    Raises ShoalError if the answer is no JSON object.
    """
    body = (folder / request.body).read_bytes()
    answer = send(target, endpoint, body, request.content_type, Accept.JSON, patience_s)
    try:
        document = json.loads(answer)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ShoalError(f"endpoint {endpoint} answered with no JSON object: {answer[:200]!r}")
    model = document.get("model")
    return model if isinstance(model, dict) else {}
