"""CloudFormation custom resource: proves that a deployment of the serving endpoint took effect, and
fails it otherwise.

Its properties are `EndpointName`, `EndpointConfigName`, `ModelName`, `ImageDigest`, `ModelDataUrl`,
`ModelDataSha256` and, where the container says what it has loaded, `ContentSha256`.
The reason of a failure begins with "rolled back:". Nothing is proven on Delete, nor while a stack
rolls back: what it returns to was proven when it was deployed.
"""

import base64
import hashlib
import json
import logging
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import boto3
import smoke_test
from botocore.exceptions import ClientError
from smoke_test import CLIENT, SmokeTestError, ask_all, own_failures, sources, wrong_answers

_IN_PROGRESS = ("Creating", "Updating", "SystemUpdating", "RollingBack")
_POLL_S = 1.0
_SPARE_S = 90.0
"""For the requests and the answer."""
_MAX_REASON = 1000
_BLOCK_BYTES = 1024 * 1024

log = logging.getLogger()
log.setLevel(logging.INFO)


def handler(event: dict[str, Any], context: Any) -> None:
    """Answer in every case: without an answer CloudFormation waits until its timeout."""
    try:
        stacks = boto3.client("cloudformation").describe_stacks
        is_over = event["RequestType"] == "Delete" or "ROLLBACK" in str(
            stacks(StackName=event["StackId"])["Stacks"][0]["StackStatus"]
        )
        problems = [] if is_over else prove(event["ResourceProperties"], context)
    except Exception as error:
        log.exception("could not prove %s", event["ResourceProperties"])
        problems = [f"nothing could be proven: {type(error).__name__}: {error}"]
    _answer(event, f"rolled back: {'; '.join(problems)}"[:_MAX_REASON] if problems else "")


def prove(expected: dict[str, str], context: Any) -> list[str]:
    """Return what differs from the release. The container is asked last, and only if it is the
    right one.
    """
    deadline = time.monotonic() + float(context.get_remaining_time_in_millis()) / 1000 - _SPARE_S
    sagemaker = boto3.client("sagemaker")
    live = _settled(sagemaker, expected["EndpointName"], deadline)
    problems = list(_wrong_configuration(live, expected)) or [
        *_wrong_model(sagemaker, expected),
        *_wrong_image(live, expected),
    ]
    problems = problems or list(_wrong_archive(boto3.client("s3"), expected, deadline))
    runtime = boto3.client("sagemaker-runtime", config=CLIENT)
    return problems or smoke_test.in_time(lambda: [*_wrong_answers(runtime, expected)], context)


def _settled(sagemaker: Any, name: str, deadline: float) -> dict[str, Any]:
    live: dict[str, Any] = sagemaker.describe_endpoint(EndpointName=name)
    while live["EndpointStatus"] in _IN_PROGRESS and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        live = sagemaker.describe_endpoint(EndpointName=name)
    return live


def _wrong_configuration(live: dict[str, Any], expected: dict[str, str]) -> Iterator[str]:
    name = expected["EndpointName"]
    because = f" ({live['FailureReason']})" if live.get("FailureReason") else ""
    if live["EndpointStatus"] != "InService":
        yield f"endpoint {name} is {live['EndpointStatus']}{because}"
    elif live["EndpointConfigName"] != expected["EndpointConfigName"]:
        yield (
            f"endpoint {name} serves {live['EndpointConfigName']}, not"
            f" {expected['EndpointConfigName']} of this deployment{because}"
        )


def _wrong_model(sagemaker: Any, expected: dict[str, str]) -> Iterator[str]:
    config = sagemaker.describe_endpoint_config(EndpointConfigName=expected["EndpointConfigName"])
    models = [variant["ModelName"] for variant in config["ProductionVariants"]]
    if models != [expected["ModelName"]]:
        yield (
            f"{expected['EndpointConfigName']} has the models {', '.join(models)}, not"
            f" {expected['ModelName']}"
        )
        return
    model = sagemaker.describe_model(ModelName=expected["ModelName"])
    containers = [model.get("PrimaryContainer", {}), *model.get("Containers", [])]
    archives = [smoke_test.model_data_of(container) for container in containers if container]
    if archives != [expected["ModelDataUrl"]]:
        yield (
            f"{expected['ModelName']} is made of {', '.join(map(str, archives))}, not of"
            f" {expected['ModelDataUrl']}"
        )


def _wrong_image(live: dict[str, Any], expected: dict[str, str]) -> Iterator[str]:
    """Compare the digests of the images that run.

    An image that SageMaker does not resolve to a digest is not compared (API reference,
    DeployedImage: "registry/repository[@digest]").
    """
    variants = live["ProductionVariants"]
    for image in (each for variant in variants for each in variant.get("DeployedImages", [])):
        digest, pinned = image.get("ResolvedImage", "").partition("@")[2], expected["ImageDigest"]
        if digest and digest != pinned:
            yield f"the image {image.get('SpecifiedImage')} runs as {digest}, pinned is {pinned}"


def _wrong_archive(s3: Any, expected: dict[str, str], deadline: float) -> Iterator[str]:
    """Compare the hash of the newest object with the pinned one.

    The model names a URL without a version, so SageMaker loads the newest object, code and all.
    """
    url, pinned = expected["ModelDataUrl"], expected["ModelDataSha256"]
    bucket, _, key = url.removeprefix("s3://").partition("/")
    digest = hashlib.sha256()
    try:
        for block in _content(s3, bucket, key):
            if time.monotonic() > deadline:
                yield f"the model data {url} is too large to be hashed in the proof's time"
                return
            digest.update(block)
    except ClientError as error:
        yield f"the model data {url} cannot be read: {error}"
        return
    if digest.hexdigest() != pinned:
        yield (
            f"the sha256 of the model data {url} is {digest.hexdigest()}, pinned is {pinned}: it"
            " was written again after it was pinned"
        )


def _content(s3: Any, bucket: str, prefix: str) -> Iterator[bytes]:
    """Yield what a model's hash is of: an archive, or of files a line each, with S3's own hash."""
    if not prefix.endswith("/"):
        yield from s3.get_object(Bucket=bucket, Key=prefix)["Body"].iter_chunks(_BLOCK_BYTES)
        return
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    for key in sorted(each["Key"] for page in pages for each in page.get("Contents", ())):
        head = s3.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
        checksum = head.get("ChecksumSHA256", "")
        if "-" not in checksum:  # of an object in one piece
            checksum = base64.b64decode(checksum).hex()
        yield f"{checksum}  {key.removeprefix(prefix)}\n".encode()


def _wrong_answers(runtime: Any, expected: dict[str, str]) -> Iterator[str]:
    """Ask the container what it has loaded: the archive may have been another one at its start."""
    try:
        answers = ask_all(runtime, expected["EndpointName"])
    except SmokeTestError as error:
        yield str(error)
        return
    log.info("answers: %s", answers)
    loaded = {source.content_sha256 for source in sources(answers)}
    pinned = expected.get("ContentSha256")
    if pinned and loaded != {pinned}:
        yield (
            f"the content of the model that answers is"
            f" {', '.join(sorted(str(each) for each in loaded))}, pinned is {pinned}"
        )
    yield from wrong_answers(answers)
    yield from own_failures(runtime, expected["EndpointName"])


def _answer(event: dict[str, Any], reason: str) -> None:
    """PUT the outcome to CloudFormation's presigned URL, which is signed for an empty content
    type.
    """
    same = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    # The id never changes: another one would make CloudFormation replace the resource.
    identity = (
        event.get("PhysicalResourceId") or f"{event['ResourceProperties']['EndpointName']}-proof"
    )
    outcome = {"Status": "FAILED", "Reason": reason} if reason else {"Status": "SUCCESS"}
    body = json.dumps({**same, **outcome, "PhysicalResourceId": identity}).encode()
    request = urllib.request.Request(  # noqa: S310
        event["ResponseURL"], data=body, method="PUT", headers={"Content-Type": ""}
    )
    with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310 - see above
        log.info("answered %s: %s", outcome, response.status)
