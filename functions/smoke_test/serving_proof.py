"""CloudFormation custom resource: proves that a deployment of the serving endpoint took, and fails it where it did not.

In: a custom resource request with `EndpointName`, `EndpointConfigName`, `ModelName`, `ModelPackageArn` and, where the release pins it,
`WeightsSha256`. Out: the answer that CloudFormation waits for; the reason of a failure begins with "rolled back:". Delete proves
nothing, nor does a stack that rolls back already: what it goes back to was proven when it was deployed.
"""

from __future__ import annotations

import json
import logging
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import boto3
from digits import CLIENT, SmokeTestError, ask_all, wrong_digits

_IN_PROGRESS = ("Creating", "Updating", "SystemUpdating", "RollingBack")
_POLL_S = 1.0
_SPARE_S = 90.0
"""For ten digits and the answer."""
_MAX_REASON = 1000

log = logging.getLogger()
log.setLevel(logging.INFO)


def handler(event: dict[str, Any], context: Any) -> None:
    """Answer in every case: without an answer CloudFormation waits until its own time is out."""
    try:
        problems = [] if event["RequestType"] == "Delete" or _rolls_back(event["StackId"]) else prove(event["ResourceProperties"], context)
    except Exception as error:
        log.exception("could not prove %s", event["ResourceProperties"])
        problems = [f"nothing could be proven: {type(error).__name__}: {error}"]
    _answer(event, f"rolled back: {'; '.join(problems)}"[:_MAX_REASON] if problems else "")


def prove(expected: dict[str, str], context: Any) -> list[str]:
    """What is not as it was to be. The container is asked last, and only if it is the right one."""
    deadline = time.monotonic() + float(context.get_remaining_time_in_millis()) / 1000 - _SPARE_S
    sagemaker = boto3.client("sagemaker")
    problems = list(_wrong_configuration(sagemaker, expected, deadline)) or list(_wrong_model(sagemaker, expected))
    return problems or list(_wrong_answers(boto3.client("sagemaker-runtime", config=CLIENT), expected))


def _wrong_configuration(sagemaker: Any, expected: dict[str, str], deadline: float) -> Iterator[str]:
    name = expected["EndpointName"]
    live = sagemaker.describe_endpoint(EndpointName=name)
    while live["EndpointStatus"] in _IN_PROGRESS and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        live = sagemaker.describe_endpoint(EndpointName=name)
    because = f" ({live['FailureReason']})" if live.get("FailureReason") else ""
    if live["EndpointStatus"] != "InService":
        yield f"endpoint {name} is {live['EndpointStatus']}{because}"
    elif live["EndpointConfigName"] != expected["EndpointConfigName"]:
        yield f"endpoint {name} serves {live['EndpointConfigName']}, not {expected['EndpointConfigName']} of this deployment{because}"


def _wrong_model(sagemaker: Any, expected: dict[str, str]) -> Iterator[str]:
    config = sagemaker.describe_endpoint_config(EndpointConfigName=expected["EndpointConfigName"])
    models = [variant["ModelName"] for variant in config["ProductionVariants"]]
    if models != [expected["ModelName"]]:
        yield f"{expected['EndpointConfigName']} has the models {', '.join(models)}, not {expected['ModelName']}"
        return
    model = sagemaker.describe_model(ModelName=expected["ModelName"])
    containers = [model.get("PrimaryContainer", {}), *model.get("Containers", [])]
    packages = [container["ModelPackageName"] for container in containers if "ModelPackageName" in container]
    if packages != [expected["ModelPackageArn"]]:
        yield f"{expected['ModelName']} is made of {', '.join(packages) or 'no package'}, not of {expected['ModelPackageArn']}"


def _wrong_answers(runtime: Any, expected: dict[str, str]) -> Iterator[str]:
    """The archive in S3 may have been written anew under the same URL: only the container knows what it has loaded."""
    try:
        answers = ask_all(runtime, expected["EndpointName"])
    except SmokeTestError as error:
        yield str(error)
        return
    log.info("answers: %s", answers)
    loaded = {answer.weights_sha256 for answer in answers}
    pinned = expected.get("WeightsSha256")
    if pinned and loaded != {pinned}:
        yield f"the weights that answer are {', '.join(sorted(str(each) for each in loaded))}, pinned are {pinned}"
    yield from wrong_digits(answers)


def _rolls_back(stack_id: str) -> bool:
    (stack,) = boto3.client("cloudformation").describe_stacks(StackName=stack_id)["Stacks"]
    return "ROLLBACK" in str(stack["StackStatus"])


def _answer(event: dict[str, Any], reason: str) -> None:
    """PUT the outcome to CloudFormation's presigned URL, which is signed for an empty content type."""
    same = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    # One id for good: another one would make CloudFormation replace the resource.
    identity = event.get("PhysicalResourceId") or f"{event['ResourceProperties']['EndpointName']}-proof"
    outcome = {"Status": "FAILED", "Reason": reason} if reason else {"Status": "SUCCESS"}
    body = json.dumps({**same, **outcome, "PhysicalResourceId": identity}).encode()
    request = urllib.request.Request(event["ResponseURL"], data=body, method="PUT", headers={"Content-Type": ""})  # noqa: S310 - CloudFormation's
    with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310 - see above
        log.info("answered %s: %s", outcome, response.status)
