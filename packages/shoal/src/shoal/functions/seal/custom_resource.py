"""Answers CloudFormation, which waits for what the function of a custom resource has done."""

import json
import logging
import urllib.request
from typing import Any

_MAX_REASON = 800
"""Characters: CloudFormation takes 4,096 bytes in all."""

log = logging.getLogger(__name__)


def answer(event: dict[str, Any], reason: str, **attributes: str) -> None:
    """PUT the outcome to the presigned URL: a failure where there is a reason.

    The URL is signed for an empty content type (CloudFormation user guide, "Custom resource
    response objects").
    """
    same = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    # The id never changes: another one would make CloudFormation replace the resource.
    identity = event.get("PhysicalResourceId") or f"{event['StackId']}/{event['LogicalResourceId']}"
    outcome: dict[str, Any] = {"Status": "SUCCESS", "Data": attributes}
    if reason:
        outcome = {"Status": "FAILED", "Reason": reason[:_MAX_REASON]}
    document = {**same, **outcome, "PhysicalResourceId": identity}
    body = json.dumps(document, ensure_ascii=False).encode(errors="replace")
    request = urllib.request.Request(  # noqa: S310 - the URL is CloudFormation's
        event["ResponseURL"], data=body, method="PUT", headers={"Content-Type": ""}
    )
    with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310 - see above
        log.info("answered %s: %s", outcome, response.status)
