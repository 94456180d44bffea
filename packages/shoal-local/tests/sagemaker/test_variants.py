"""Production variants: their weights, instances and concurrency."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.hosted import call_many, configure, invoke, model_of, remove, servers_of, settled
from local_kit.sagemaker_account import BUCKET, Account, until
from shoal_local.processes import started_at
from tests.sagemaker.test_deployments import share_is

TWO = "two-variants"
AMI = "al2023-ami-sagemaker-inference-gpu-4-1"
CAPTURE = {
    "InitialSamplingPercentage": 100,
    "DestinationS3Uri": f"s3://{BUCKET}/captured",
    "CaptureOptions": [{"CaptureMode": "InputAndOutput"}],
    "CaptureContentTypeHeader": {"JsonContentTypes": ["application/json"]},
}


def variant(name: str, weight: float, count: int = 1, **more: Any) -> dict[str, Any]:
    on = {
        "InstanceType": "ml.m5.xlarge",
        "InitialInstanceCount": count,
        "InitialVariantWeight": weight,
    }
    return {"VariantName": name, "ModelName": name, **on, **more}


def configure_two(account: Account, name: str, **more: Any) -> None:
    variants = [variant("three", 1, InferenceAmiVersion=AMI), variant("five", 3)]
    account.sagemaker.create_endpoint_config(
        EndpointConfigName=name, ProductionVariants=variants, **more
    )


def now(account: Account) -> dict[str, tuple[float, int]]:
    """Weight and instance count of the variants."""
    variants = account.sagemaker.describe_endpoint(EndpointName=TWO)["ProductionVariants"]
    return {
        each["VariantName"]: (each["CurrentWeight"], each["CurrentInstanceCount"])
        for each in variants
    }


def change(account: Account, **desired: Any) -> None:
    account.sagemaker.update_endpoint_weights_and_capacities(
        EndpointName=TWO, DesiredWeightsAndCapacities=[desired]
    )
    settled(account, TWO)


@pytest.fixture(scope="module")
def two(account: Account) -> Iterator[str]:
    """Deploy an endpoint with two variants and a data capture configuration."""
    configure(account, "three", model_of("3"))
    configure(account, "five", model_of("5"))
    configure_two(account, TWO, DataCaptureConfig=CAPTURE)
    account.sagemaker.create_endpoint(EndpointName=TWO, EndpointConfigName=TWO)
    assert settled(account, TWO)["EndpointStatus"] == "InService"
    yield TWO
    remove(account, TWO)


def test_invocations_go_to_the_variants_by_their_weights(account: Account, two: str) -> None:
    calls = call_many(account, two, 200)
    assert calls.failed == []
    assert share_is(calls.factors[5.0], 200, 0.75), calls.factors


def test_a_caller_may_choose_the_variant(account: Account, two: str) -> None:
    assert {invoke(account, two, {"x": 1}, TargetVariant="three")["y"] for _ in range(10)} == {3.0}
    with pytest.raises(ClientError, match="Variant four of endpoint two-variants not found"):
        invoke(account, two, {"x": 1}, TargetVariant="four")


def test_data_capture_is_described_and_nothing_is_captured(account: Account, two: str) -> None:
    assert invoke(account, two, {"x": 14}, TargetVariant="three") == {"y": 42.0}
    described = account.sagemaker.describe_endpoint(EndpointName=two)["DataCaptureConfig"]
    assert described["DestinationS3Uri"] == CAPTURE["DestinationS3Uri"]
    assert (described["CaptureStatus"], described["CurrentSamplingPercentage"]) == ("Stopped", 100)
    kept = account.sagemaker.describe_endpoint_config(EndpointConfigName=two)["DataCaptureConfig"]
    assert kept == CAPTURE
    assert account.keys("captured/") == []


def test_the_image_of_the_instances_is_kept(account: Account, two: str) -> None:
    kept = account.sagemaker.describe_endpoint_config(EndpointConfigName=two)
    assert [each.get("InferenceAmiVersion") for each in kept["ProductionVariants"]] == [AMI, None]


def test_weights_and_instances_change_without_a_failed_invocation_and_outlive_an_update(
    account: Account, two: str
) -> None:
    assert len(servers_of(account, two)) == 2
    change(account, VariantName="three", DesiredWeight=9, DesiredInstanceCount=2)
    assert now(account) == {"three": (9.0, 2), "five": (3.0, 1)}
    assert len(servers_of(account, two)) == 3, "an instance is a process"
    calls = call_many(account, two, 100)
    assert calls.failed == []
    assert share_is(calls.factors[3.0], 100, 0.75), calls.factors

    configure_two(account, "two-again")
    account.sagemaker.update_endpoint(
        EndpointName=two,
        EndpointConfigName="two-again",
        RetainAllVariantProperties=True,
        ExcludeRetainedVariantProperties=[{"VariantPropertyType": "DesiredWeight"}],
    )
    settled(account, two)
    assert now(account) == {"three": (1.0, 2), "five": (3.0, 1)}
    assert "DataCaptureConfig" not in account.sagemaker.describe_endpoint(EndpointName=two)

    change(account, VariantName="three", DesiredInstanceCount=1)
    assert len(servers_of(account, two)) == 2
    account.sagemaker.update_endpoint(EndpointName=two, EndpointConfigName=TWO)
    settled(account, two)
    assert now(account) == {"three": (1.0, 1), "five": (3.0, 1)}


@pytest.mark.parametrize(
    ("desired", "message"),
    [
        (
            {"VariantName": "four", "DesiredWeight": 1},
            "Could not find variant four of the endpoint; it has three, five",
        ),
        ({"VariantName": "three", "DesiredInstanceCount": 0}, "must be at least 1"),
        (
            {"VariantName": "three", "ServerlessUpdateConfig": {"MaxConcurrency": 1}},
            "is not serverless",
        ),
    ],
)
def test_what_a_variant_cannot_become_is_refused(
    account: Account, two: str, desired: dict[str, Any], message: str
) -> None:
    with pytest.raises(ClientError, match=message):
        account.sagemaker.update_endpoint_weights_and_capacities(
            EndpointName=two, DesiredWeightsAndCapacities=[desired]
        )


def test_an_instance_whose_container_has_ended_gets_no_invocation(account: Account) -> None:
    configure(account, "half-dead", model_of("3"), {"InitialInstanceCount": 2})
    account.sagemaker.create_endpoint(EndpointName="half-dead", EndpointConfigName="half-dead")
    settled(account, "half-dead")
    records = (account.state_dir / "processes").glob("[0-9]*.json")
    pid = next(int(each.stem) for each in records if "endpoint-half-dead-" in each.read_text())
    os.killpg(pid, signal.SIGKILL)
    until(lambda: started_at(pid), lambda seen: seen is None)
    calls = call_many(account, "half-dead", 20)
    assert (calls.factors, calls.failed) == ({3.0: 20}, [])
    remove(account, "half-dead")


def test_a_serverless_endpoint_serves_and_throttles_above_its_concurrency(account: Account) -> None:
    configure(
        account,
        "serverless",
        model_of("3", slow_s="2"),
        {"ServerlessConfig": {"MemorySizeInMB": 2048, "MaxConcurrency": 1}},
    )
    account.sagemaker.create_endpoint(EndpointName="serverless", EndpointConfigName="serverless")
    (described,) = settled(account, "serverless")["ProductionVariants"]
    assert described["CurrentServerlessConfig"] == {"MemorySizeInMB": 2048, "MaxConcurrency": 1}
    assert "CurrentInstanceCount" not in described
    calls = call_many(account, "serverless", 8)
    assert calls.factors, "one at a time is served"
    assert {each[:35] for each in calls.failed} == {"An error occurred (ThrottlingExcept"}
    assert invoke(account, "serverless", {"x": 2}) == {"y": 6.0}
    remove(account, "serverless")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"ServerlessConfig": {"MemorySizeInMB": 1500, "MaxConcurrency": 1}}, "in steps of 1024"),
        (
            {"ServerlessConfig": {"MemorySizeInMB": 7168, "MaxConcurrency": 1}},
            "less than or equal to 6144",
        ),
        (
            {"ServerlessConfig": {"MemorySizeInMB": 1024, "MaxConcurrency": 201}},
            "less than or equal to 200",
        ),
        (
            {
                "ServerlessConfig": {
                    "MemorySizeInMB": 1024,
                    "MaxConcurrency": 2,
                    "ProvisionedConcurrency": 3,
                }
            },
            "at most its MaxConcurrency",
        ),
        (
            {
                "ServerlessConfig": {"MemorySizeInMB": 1024, "MaxConcurrency": 2},
                "InstanceType": "ml.m5.xlarge",
            },
            "one of them only",
        ),
        ({}, "needs an InstanceType, or a ServerlessConfig"),
    ],
)
def test_a_variant_that_aws_does_not_take_is_refused(
    account: Account, two: str, members: dict[str, Any], message: str
) -> None:
    production_variant = {"VariantName": "one", "ModelName": "three", **members}
    with pytest.raises(ClientError, match=message):
        account.sagemaker.create_endpoint_config(
            EndpointConfigName="refused", ProductionVariants=[production_variant]
        )


def test_serverless_endpoints_capture_nothing(account: Account, two: str) -> None:
    production_variant = {
        "VariantName": "one",
        "ModelName": "three",
        "ServerlessConfig": {"MemorySizeInMB": 1024, "MaxConcurrency": 2},
    }
    with pytest.raises(ClientError, match="Serverless endpoints do not support data capture"):
        account.sagemaker.create_endpoint_config(
            EndpointConfigName="refused",
            ProductionVariants=[production_variant],
            DataCaptureConfig=CAPTURE,
        )


def test_an_asynchronous_endpoint_is_refused_by_name(account: Account, two: str) -> None:
    with pytest.raises(ClientError, match=r"not emulate EndpointConfig\.AsyncInferenceConfig"):
        configure_two(
            account,
            "refused",
            AsyncInferenceConfig={"OutputConfig": {"S3OutputPath": f"s3://{BUCKET}/results"}},
        )
    with pytest.raises(ClientError, match=r"does not emulate /endpoints/.*/async-invocations"):
        account.client("sagemaker-runtime").invoke_endpoint_async(
            EndpointName=two, InputLocation=f"s3://{BUCKET}/input.json"
        )
