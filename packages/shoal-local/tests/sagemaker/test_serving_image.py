"""An endpoint with the image of the recipe pytorch-serving: the recipe's own program answers."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from botocore.exceptions import ClientError

from local_kit.hosted import CODE, configure_container, create, remove
from local_kit.sagemaker_account import PROGRAMS, Account, archive, until
from shoal_local.sagemaker.settings import Settings
from tests.sagemaker.conftest import Services

IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/shoal-mnist-dev-pytorch-serving@sha256:" + (
    "0" * 64
)
STREAMING = (PROGRAMS / "streaming.py").read_bytes()
# no input_fn and no output_fn: the toolkit's own are used
DEFAULTS = (
    b"def model_fn(model_dir):\n  return 3\ndef predict_fn(data, model):\n  return data * model\n"
)


def configured(account: Account, name: str, files: dict[str, bytes]) -> None:
    url = account.put(f"models/{name}/model.tar.gz", archive(files))
    configure_container(account, name, {"Image": IMAGE, "ModelDataUrl": url})


@pytest.fixture(scope="module")
def endpoints(account: Account) -> Iterator[Account]:
    """The account, with an endpoint for each script."""
    scripts = {"own-functions": CODE, "defaults": DEFAULTS, "in-parts": STREAMING}
    for name, script in scripts.items():
        configured(account, name, {"model.txt": b"3", "code/inference.py": script})
        described = create(account, name)
        assert described["EndpointStatus"] == "InService", described.get("FailureReason")
    yield account
    for name in scripts:
        remove(account, name)


def npy(values: list[int]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array(values))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("endpoint", "sends", "accept", "body", "answer"),
    [
        ("own-functions", "application/json", "application/json", b'{"x": 2}', b'{"y": 6.0}'),
        ("own-functions", "application/json", "*/*", b'{"x": 2}', b'{"y": 6.0}'),
        ("defaults", "application/json", "application/json", b"[1, 2]", b"[3.0, 6.0]"),
        ("defaults", "text/csv", "application/json", b"1,2", b"[3.0, 6.0]"),
        ("defaults", "application/x-npy", "text/csv", npy([1, 2]), b"3\n6\n"),
        ("in-parts", "application/json", "text/plain", b'{"parts": ["one", "two"]}', b"onetwo"),
    ],
)
def test_the_scripts_functions_answer(
    endpoints: Account, endpoint: str, sends: str, accept: str, body: bytes, answer: bytes
) -> None:
    answered = endpoints.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=endpoint, ContentType=sends, Accept=accept, Body=body
    )
    assert answered["Body"].read() == answer


@pytest.mark.parametrize(
    ("endpoint", "sends", "accept", "body", "message"),
    [
        ("own-functions", "application/json", "*/*", b'{"x": "boom"}', "could not convert"),
        ("own-functions", "text/csv", "*/*", b"1", "unsupported content type text/csv"),
        ("defaults", "image/png", "application/json", b"x", "image/png"),
        ("defaults", "application/json", "image/png", b"[1]", "image/png"),
    ],
)
def test_what_a_function_raises_is_the_models_error(
    endpoints: Account,
    endpoint: str,
    sends: str,
    accept: str,
    body: bytes,
    message: str,
) -> None:
    with pytest.raises(ClientError, match=message) as caught:
        endpoints.client("sagemaker-runtime").invoke_endpoint(
            EndpointName=endpoint, ContentType=sends, Accept=accept, Body=body
        )
    response: Any = caught.value.response
    assert response["OriginalStatusCode"] == 500


def test_a_part_of_an_answer_arrives_before_the_next_is_made(endpoints: Account) -> None:
    body = json.dumps({"parts": ["one", "two"], "wait_for": "signals/serving"}).encode()
    events = iter(
        endpoints.client("sagemaker-runtime").invoke_endpoint_with_response_stream(
            EndpointName="in-parts", ContentType="application/json", Body=body
        )["Body"]
    )
    first = next(events)["PayloadPart"]["Bytes"]
    endpoints.put("signals/serving", b"")
    assert [first, *(each["PayloadPart"]["Bytes"] for each in events)] == [b"one", b"two"]


def test_a_model_that_does_not_load_ends_the_container(account: Account) -> None:
    configured(account, "broken", {"code/inference.py": b"def model_fn(model_dir):\n  1 / 0\n"})
    failed = create(account, "broken")
    assert failed["EndpointStatus"] == "Failed"
    assert "The container ended with exit code 3." in failed["FailureReason"]
    assert "ZeroDivisionError" in "\n".join(
        account.log("/aws/sagemaker/Endpoints/broken", "AllTraffic")
    )


def test_an_emulator_without_the_recipe_says_what_to_do(
    account: Account, second_service: Services
) -> None:
    service = second_service(Settings())
    model = {"ModelName": "no-recipe", "PrimaryContainer": {"Image": IMAGE}}
    service.handle("CreateModel", {**model, "ExecutionRoleArn": account.role}, "caller")
    variant = {"VariantName": "v", "ModelName": "no-recipe", "InstanceType": "ml.m5.xlarge"}
    name = {"EndpointConfigName": "no-recipe"}
    service.handle("CreateEndpointConfig", {**name, "ProductionVariants": [variant]}, "caller")
    service.handle("CreateEndpoint", {**name, "EndpointName": "no-recipe"}, "caller")
    described = until(
        lambda: service.handle("DescribeEndpoint", {"EndpointName": "no-recipe"}, "caller"),
        lambda each: each["EndpointStatus"] == "Failed",
    )
    assert "start the emulator with --recipes" in described["FailureReason"]
