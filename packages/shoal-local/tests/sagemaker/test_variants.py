"""The production variant of an endpoint: its instances, its concurrency, and what it cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.hosted import (
    call_many,
    configure,
    create,
    invoke,
    model_of,
    remove,
    served,
    settled,
)
from local_kit.sagemaker_account import BUCKET, Account

NAME = "pair"
AMI = "al2023-ami-sagemaker-inference-gpu-4-1"
CAPTURE = {
    "InitialSamplingPercentage": 100,
    "DestinationS3Uri": f"s3://{BUCKET}/captured",
    "CaptureOptions": [{"CaptureMode": "InputAndOutput"}],
    "CaptureContentTypeHeader": {"JsonContentTypes": ["application/json"]},
}
ON_MACHINES = {"InstanceType": "ml.m5.xlarge"}
SMALL = {"MemorySizeInMB": 1024, "MaxConcurrency": 2}


def describe(account: Account, name: str) -> dict[str, Any]:
    answer: dict[str, Any] = account.sagemaker.describe_endpoint(EndpointName=name)
    return answer


@pytest.fixture(scope="module")
def pair(account: Account) -> Iterator[str]:
    """An endpoint of two instances with a data capture configuration."""
    variant = {"InitialInstanceCount": 2, "InferenceAmiVersion": AMI}
    configure(account, NAME, model_of("3"), variant, DataCaptureConfig=CAPTURE)
    assert create(account, NAME)["EndpointStatus"] == "InService"
    yield NAME
    remove(account, NAME)


def test_a_caller_may_name_the_variant(account: Account, pair: str) -> None:
    assert invoke(account, pair, {"x": 1}, TargetVariant="AllTraffic") == {"y": 3.0}
    with pytest.raises(ClientError, match="Variant four of endpoint pair not found"):
        invoke(account, pair, {"x": 1}, TargetVariant="four")


def test_what_is_only_kept_is_described_and_nothing_is_captured(
    account: Account, pair: str
) -> None:
    assert invoke(account, pair, {"x": 14}) == {"y": 42.0}
    kept = account.sagemaker.describe_endpoint_config(EndpointConfigName=pair)
    assert kept["DataCaptureConfig"] == CAPTURE
    assert kept["ProductionVariants"][0]["InferenceAmiVersion"] == AMI
    assert account.keys("captured/") == []


def test_an_update_retains_the_count_of_instances_if_it_says_so(account: Account) -> None:
    configure(account, "counted-one", model_of("5"))
    with served(account, "counted", model_of("3"), InitialInstanceCount=2) as name:
        for excluded, count in (("DesiredWeight", 2), ("DesiredInstanceCount", 1)):
            account.sagemaker.update_endpoint(
                EndpointName=name,
                EndpointConfigName="counted-one",
                RetainAllVariantProperties=True,
                ExcludeRetainedVariantProperties=[{"VariantPropertyType": excluded}],
            )
            settled(account, name)
            (variant,) = describe(account, name)["ProductionVariants"]
            assert variant["CurrentInstanceCount"] == count
            assert invoke(account, name, {"x": 1}) == {"y": 5.0}


def test_a_serverless_endpoint_serves_and_throttles_above_its_concurrency(account: Account) -> None:
    config = {"MemorySizeInMB": 2048, "MaxConcurrency": 1}
    with served(account, "serverless", model_of("3", slow_s="2"), ServerlessConfig=config) as name:
        (described,) = describe(account, name)["ProductionVariants"]
        assert described["CurrentServerlessConfig"] == config
        assert "CurrentInstanceCount" not in described
        calls = call_many(account, name, 8)
        assert calls.factors, "one at a time is served"
        assert {each[:35] for each in calls.failed} == {"An error occurred (ThrottlingExcept"}
        assert invoke(account, name, {"x": 2}) == {"y": 6.0}


@pytest.mark.parametrize(
    ("members", "config", "message"),
    [
        ({"ServerlessConfig": SMALL | {"MemorySizeInMB": 7168}}, {}, "less than or equal to 6144"),
        ({"ServerlessConfig": SMALL | {"MaxConcurrency": 201}}, {}, "less than or equal to 200"),
        ({"ServerlessConfig": SMALL, **ON_MACHINES}, {}, "needs an InstanceType, or a Serverless"),
        ({}, {}, "needs an InstanceType, or a ServerlessConfig"),
        (
            ON_MACHINES,
            {"AsyncInferenceConfig": {"OutputConfig": {"S3OutputPath": f"s3://{BUCKET}/results"}}},
            r"not emulate CreateEndpointConfig\.AsyncInferenceConfig",
        ),
        (
            ON_MACHINES,
            {"ProductionVariants": [{"VariantName": each, **ON_MACHINES} for each in "ab"]},
            "not emulate endpoints with several production variants",
        ),
    ],
)
def test_a_configuration_that_cannot_be_served_is_refused(
    account: Account, pair: str, members: dict[str, Any], config: dict[str, Any], message: str
) -> None:
    variant = {"VariantName": "one", "ModelName": pair, **members}
    request = {"EndpointConfigName": "refused", "ProductionVariants": [variant], **config}
    with pytest.raises(ClientError, match=message):
        account.sagemaker.create_endpoint_config(**request)


def test_what_an_endpoint_cannot_do_is_refused_by_name(account: Account, pair: str) -> None:
    with pytest.raises(ClientError, match="the operation UpdateEndpointWeightsAndCapacities"):
        account.sagemaker.update_endpoint_weights_and_capacities(
            EndpointName=pair,
            DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", "DesiredWeight": 1}],
        )
    with pytest.raises(ClientError, match=r"does not emulate /endpoints/.*/async-invocations"):
        account.client("sagemaker-runtime").invoke_endpoint_async(
            EndpointName=pair, InputLocation=f"s3://{BUCKET}/input.json"
        )
