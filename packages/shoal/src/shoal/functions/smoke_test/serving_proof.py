"""CloudFormation custom resource: proves that a deployment of the serving endpoint took effect, and
fails it otherwise.

Its properties are `EndpointName`, `EndpointConfigName`, `ModelName`, `ImageDigest`, `ModelDataUrl`,
`ModelDataSha256` and, where the container says what it has loaded, `ContentSha256`.
The reason of a failure begins with "rolled back:". Nothing is proven on Delete, nor while a stack
rolls back: what it returns to was proven when it was deployed.
"""

import hashlib
import logging
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import boto3
import smoke_test
from botocore.exceptions import ClientError
from custom_resource import answer
from model_archive import checksums_below, digest_of, model_data_of
from smoke_test import CLIENT, SmokeTestError, ask_all, own_failures, sources, wrong_answers

_IN_PROGRESS = ("Creating", "Updating", "SystemUpdating", "RollingBack")
_POLL_S = 1.0
_SPARE_S = 90.0
"""For the requests and the answer."""
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
    answer(event, f"rolled back: {'; '.join(problems)}" if problems else "")


def prove(expected: dict[str, str], context: Any) -> list[str]:
    """Return what differs from the release; the container is asked last, if it is the right one."""
    deadline = time.monotonic() + float(context.get_remaining_time_in_millis()) / 1000 - _SPARE_S
    sagemaker = boto3.client("sagemaker")
    live = _settled(sagemaker, expected["EndpointName"], deadline)
    problems = list(_wrong_configuration(live, expected)) or [
        *_wrong_model(sagemaker, expected),
        *_wrong_image(live, expected),
    ]
    problems = problems or list(_wrong_archive(_s3_until(deadline), expected, deadline))
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
    archives = [model_data_of(container) for container in containers if container]
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


class _TooLateError(Exception):
    """The proof's time is over."""


def _refuse_late(deadline: float, **_: Any) -> None:
    if time.monotonic() > deadline:
        raise _TooLateError


def _s3_until(deadline: float) -> Any:
    """Return a client of S3 that sends nothing after the deadline: files may be many."""
    client = boto3.client("s3")
    client.meta.events.register("before-send", partial(_refuse_late, deadline))
    return client


def _wrong_archive(s3: Any, expected: dict[str, str], deadline: float) -> Iterator[str]:
    """Compare the hash of the newest object with the pinned one, of files that of their hashes.

    The model names a URL without a version, so SageMaker loads the newest object, code and all.
    """
    url, pinned = expected["ModelDataUrl"], expected["ModelDataSha256"]
    bucket, _, key = url.removeprefix("s3://").partition("/")
    try:
        if key.endswith("/"):
            actual = digest_of(checksums_below(s3, bucket, key))
        else:
            digest = hashlib.sha256()
            for block in s3.get_object(Bucket=bucket, Key=key)["Body"].iter_chunks(_BLOCK_BYTES):
                _refuse_late(deadline)
                digest.update(block)
            actual = digest.hexdigest()
    except _TooLateError:
        yield f"the model data {url} is too large to be hashed in the proof's time"
        return
    except ClientError as error:
        yield f"the model data {url} cannot be read: {error}"
        return
    if actual != pinned:
        yield (
            f"the sha256 of the model data {url} is {actual}, pinned is {pinned}: it was written"
            " again after it was pinned"
        )


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
