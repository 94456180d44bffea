"""Endpoints: InService means that a server process answered /ping; what the model says is what
the caller gets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from botocore.exceptions import ClientError

from local_kit.hosted import GOOD_MODEL, deploy, invoke, remove, servers_of, settled
from local_kit.sagemaker_account import INFERENCE_IMAGE, PROGRAMS, Account, archive, until


@pytest.fixture(scope="module")
def endpoint(account: Account) -> Iterator[str]:
    deploy(account, "good", GOOD_MODEL)
    assert settled(account, "good")["EndpointStatus"] == "InService"
    yield "good"
    remove(account, "good")


def test_an_endpoint_answers_with_its_model(account: Account, endpoint: str) -> None:
    assert invoke(account, endpoint, {"x": 14}) == {"y": 42.0}


def test_an_image_is_told_by_the_digest_that_its_tag_had(account: Account, endpoint: str) -> None:
    """API reference, DeployedImage: registry/repository[:tag] resolves to
    registry/repository[@digest].
    """
    host, _, path = INFERENCE_IMAGE.partition("/")
    repository, _, tag = path.partition(":")
    request = {
        "registryId": host.split(".")[0],
        "repositoryName": repository,
        "imageIds": [{"imageTag": tag}],
    }
    (pushed,) = account.client("ecr").batch_get_image(**request)["images"]
    (variant,) = account.sagemaker.describe_endpoint(EndpointName=endpoint)["ProductionVariants"]
    (image,) = variant["DeployedImages"]
    assert image["SpecifiedImage"] == INFERENCE_IMAGE
    assert image["ResolvedImage"] == f"{host}/{repository}@{pushed['imageId']['imageDigest']}"


def test_calls_errors_and_latency_are_measured(account: Account, endpoint: str) -> None:
    before = sum(
        account.measured(
            "AWS/SageMaker",
            "Invocation5XXErrors",
            "Sum",
            EndpointName=endpoint,
            VariantName="AllTraffic",
        )
    )
    with pytest.raises(ClientError, match="could not convert"):
        invoke(account, endpoint, {"x": "boom"})
    after = sum(
        account.measured(
            "AWS/SageMaker",
            "Invocation5XXErrors",
            "Sum",
            EndpointName=endpoint,
            VariantName="AllTraffic",
        )
    )
    assert after - before == 1
    assert (
        max(
            account.measured(
                "AWS/SageMaker",
                "ModelLatency",
                "p99",
                EndpointName=endpoint,
                VariantName="AllTraffic",
            )
        )
        > 100
    )


def test_nobody_else_writes_metrics_into_awss_namespaces(account: Account) -> None:
    datum = {"MetricName": "Invocations", "Value": 1}
    with pytest.raises(ClientError, match="AWS/ for parameter Namespace is invalid"):
        account.client("cloudwatch").put_metric_data(Namespace="AWS/SageMaker", MetricData=[datum])


def test_a_handler_that_raises_is_a_model_error_with_its_own_status(
    account: Account, endpoint: str
) -> None:
    with pytest.raises(ClientError, match="could not convert string to float") as caught:
        invoke(account, endpoint, {"x": "boom"})
    assert caught.value.response["Error"]["Code"] == "ModelError"
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 424


@pytest.mark.usefixtures("endpoint")
def test_the_containers_log_is_the_endpoints(account: Account) -> None:
    until(
        lambda: account.log("/aws/sagemaker/Endpoints/good", "AllTraffic/"),
        lambda lines: any("Model loaded" in line for line in lines),
    )


def test_an_unknown_endpoint_is_a_validation_error(account: Account) -> None:
    with pytest.raises(
        ClientError, match=r"ValidationError.*Endpoint nobody of account 123456789012 not found"
    ):
        invoke(account, "nobody", {})


def test_a_corrupt_model_archive_fails_the_endpoint(account: Account) -> None:
    deploy(account, "corrupt", GOOD_MODEL[:100])
    failed = settled(account, "corrupt")
    assert failed["EndpointStatus"] == "Failed"
    assert failed["FailureReason"].startswith("Failed to extract model data archive from URL s3://")


def test_a_model_that_does_not_load_fails_the_endpoint(account: Account) -> None:
    deploy(
        account,
        "no-weights",
        archive({"code/inference.py": (PROGRAMS / "inference.py").read_bytes()}),
    )
    failed = settled(account, "no-weights")
    assert failed["EndpointStatus"] == "Failed"
    assert "did not pass the ping health check" in failed["FailureReason"]
    assert "No such file or directory: '/opt/ml/model/model.txt'" in failed["FailureReason"]


def test_an_endpoint_that_is_being_created_cannot_be_deleted(account: Account) -> None:
    deploy(account, "early", GOOD_MODEL)
    with pytest.raises(
        ClientError,
        match=(
            r"Cannot update in-progress endpoint"
            r' "arn:aws:sagemaker:us-east-1:123456789012:endpoint/early"'
        ),
    ):
        account.sagemaker.delete_endpoint(EndpointName="early")
    assert settled(account, "early")["EndpointStatus"] == "InService"
    remove(account, "early")


def test_a_deleted_endpoint_is_gone_with_its_process_and_its_model(account: Account) -> None:
    deploy(account, "short", GOOD_MODEL)
    settled(account, "short")
    assert len(servers_of(account, "short")) == 1
    (folder,) = (account.state_dir / "sagemaker-jobs").glob("endpoint-short-*")
    assert {"model.tar.gz", "model.txt"} <= {path.name for path in folder.rglob("*")}
    account.sagemaker.delete_endpoint(EndpointName="short")
    until(
        lambda: account.sagemaker.list_endpoints(NameContains="short")["Endpoints"],
        lambda endpoints: not endpoints,
    )
    with pytest.raises(
        ClientError,
        match=(
            r"ValidationException.*Could not find endpoint"
            r' "arn:aws:sagemaker:us-east-1:123456789012:endpoint/short"'
        ),
    ):
        account.sagemaker.describe_endpoint(EndpointName="short")
    assert not servers_of(account, "short")
    assert {path.name for path in folder.iterdir() if path.is_dir()} == set()
    assert "Model loaded" in (folder / "log.txt").read_text()


def test_an_update_that_fails_leaves_the_old_model_in_service(
    account: Account, endpoint: str
) -> None:
    url = account.put("models/worse/model.tar.gz", b"no archive")
    container = {"Image": INFERENCE_IMAGE, "ModelDataUrl": url}
    account.sagemaker.create_model(
        ModelName="worse", PrimaryContainer=container, ExecutionRoleArn=account.role
    )
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": "worse",
        "InstanceType": "ml.m5.xlarge",
        "InitialInstanceCount": 1,
    }
    account.sagemaker.create_endpoint_config(
        EndpointConfigName="worse", ProductionVariants=[variant]
    )
    account.sagemaker.update_endpoint(EndpointName=endpoint, EndpointConfigName="worse")
    assert settled(account, endpoint)["EndpointConfigName"] == "good"
    assert invoke(account, endpoint, {"x": 1}) == {"y": 3.0}


@pytest.mark.parametrize(
    "name",
    [
        "djl-inference:0.36.0-lmi28.0.0-cu130",
        "vllm:server-sagemaker-cuda-v1",
    ],
)
def test_a_container_for_language_models_is_refused_by_name(account: Account, name: str) -> None:
    image = f"763104351884.dkr.ecr.us-east-1.amazonaws.com/{name}"
    url = account.put("models/language/model.tar.gz", GOOD_MODEL)
    container = {"Image": image, "ModelDataUrl": url}
    with pytest.raises(ClientError, match=f"does not emulate the image {re.escape(image)}"):
        account.sagemaker.create_model(
            ModelName="language", PrimaryContainer=container, ExecutionRoleArn=account.role
        )
    with pytest.raises(ClientError, match="Could not find model"):
        account.sagemaker.describe_model(ModelName="language")
