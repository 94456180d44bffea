"""InvokeEndpointWithResponseStream: the container's answer comes in parts, while it is made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.config import Config
from botocore.eventstream import EventStreamBuffer
from botocore.exceptions import ClientError, EventStreamError

from local_kit.hosted import ENVIRONMENT, served
from local_kit.sagemaker_account import INFERENCE_IMAGE, PROGRAMS, Account, archive, until
from shoal_local.sagemaker.settings import Settings
from tests.sagemaker.conftest import Services

MODEL = archive({"code/inference.py": (PROGRAMS / "streaming.py").read_bytes()})


@pytest.fixture(scope="module")
def endpoint(account: Account) -> Iterator[str]:
    with served(account, "speaks", MODEL) as name:
        yield name


def speak(account: Account, endpoint: str, **request: Any) -> Any:
    client = account.client("sagemaker-runtime", Config(retries={"total_max_attempts": 1}))
    return client.invoke_endpoint_with_response_stream(
        EndpointName=endpoint, Body=json.dumps(request), ContentType="application/json"
    )


def texts(events: Any) -> list[str]:
    return [each["PayloadPart"]["Bytes"].decode() for each in events]


def test_a_part_arrives_before_the_next_one_is_made(account: Account, endpoint: str) -> None:
    answer = speak(account, endpoint, parts=["one", "two", "three"], wait_for="signals/go")
    assert answer["ContentType"] == "text/plain"
    assert answer["InvokedProductionVariant"] == "AllTraffic"
    events = iter(answer["Body"])
    first = next(events)["PayloadPart"]["Bytes"]
    account.put("signals/go", b"")
    assert [first.decode(), *texts(events)] == ["one", "two", "three"]


def test_an_answer_in_one_piece_is_streamed_too(account: Account, endpoint: str) -> None:
    long = "x" * 200_000
    assert "".join(texts(speak(account, endpoint, parts=[long])["Body"])) == long


def test_a_call_without_a_stream_gets_all_parts_at_once(account: Account, endpoint: str) -> None:
    answer = account.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=endpoint,
        Body=json.dumps({"parts": ["one", "two"]}),
        ContentType="application/json",
    )
    assert answer["Body"].read() == b"onetwo"


def test_an_error_before_the_first_part_is_a_model_error(account: Account, endpoint: str) -> None:
    with pytest.raises(ClientError, match="not this one") as caught:
        speak(account, endpoint, parts=["one"], then="refuse")
    assert caught.value.response["Error"]["Code"] == "ModelError"
    assert "server error (500)" in str(caught.value)


def test_a_client_that_leaves_leaves_the_endpoint_to_others(
    account: Account, endpoint: str
) -> None:
    answer = speak(account, endpoint, parts=["one", "two"], wait_for="signals/left")
    assert next(iter(answer["Body"]))
    answer["Body"].close()
    account.put("signals/left", b"")
    assert texts(speak(account, endpoint, parts=["again"])["Body"]) == ["again"]


def test_a_container_that_dies_breaks_the_stream(account: Account) -> None:
    with served(account, "mortal", MODEL) as name:
        events = iter(speak(account, name, parts=["one", "two"], then="die")["Body"])
        assert next(events)["PayloadPart"]["Bytes"] == b"one"
        with pytest.raises(EventStreamError, match="reset or closed") as caught:
            list(events)
    assert caught.value.response["Error"]["Code"] == "ModelStreamError"


@pytest.mark.nightly
def test_a_model_that_does_not_come_to_its_end_is_cut_off(
    account: Account, second_service: Services
) -> None:
    """repost.aws, "invoke streaming timeout error", has AWS's words."""
    impatient = second_service(Settings(stream_s=1.0))
    url = account.put("models/endless/model.tar.gz", MODEL)
    container = {"Image": INFERENCE_IMAGE, "ModelDataUrl": url, "Environment": ENVIRONMENT}
    model = {"ModelName": "endless", "PrimaryContainer": container}
    variant = {"VariantName": "v", "ModelName": "endless", "InstanceType": "ml.m5.xlarge"}
    config = {"EndpointConfigName": "endless", "ProductionVariants": [variant]}
    endpoint = {"EndpointName": "endless", "EndpointConfigName": "endless"}
    impatient.handle("CreateModel", {**model, "ExecutionRoleArn": account.role}, "caller")
    impatient.handle("CreateEndpointConfig", config, "caller")
    impatient.handle("CreateEndpoint", endpoint, "caller")
    until(
        lambda: impatient.handle("DescribeEndpoint", {"EndpointName": "endless"}, "caller"),
        lambda each: each["EndpointStatus"] == "InService",
    )
    body = json.dumps({"parts": ["one", "two"], "wait_for": "signals/never"}).encode()
    invoke = impatient.invocations["InvokeEndpointWithResponseStream"]
    _, _, events = invoke("endless", body, {"content-type": "application/json"})
    buffer = EventStreamBuffer()
    for event in events:
        buffer.add_data(event)
    first, last = buffer
    headers: Any = last.headers
    assert first.payload == b"one"
    assert headers[":exception-type"] == "ModelStreamError"
    assert json.loads(last.payload) == {
        "Message": "Your model v did not complete sending the inference response in the allotted"
        " time.",
        "ErrorCode": "ModelInvocationTimeExceeded",
    }
