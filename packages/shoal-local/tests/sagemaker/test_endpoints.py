"""Endpoints: InService means that a server process answered /ping; what the model says is what
the caller gets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from botocore.exceptions import ClientError

from local_kit.hosted import (
    CODE,
    GOOD_MODEL,
    configure,
    configure_container,
    create,
    deploy,
    invoke,
    model_of,
    remove,
    served,
    servers_of,
    settled,
)
from local_kit.sagemaker_account import INFERENCE_IMAGE, Account, archive, until

ARN = "arn:aws:sagemaker:us-east-1:123456789012:endpoint"


@pytest.fixture(scope="module")
def endpoint(account: Account) -> Iterator[str]:
    with served(account, "good", GOOD_MODEL) as name:
        yield name


def test_an_endpoint_answers_with_its_model_and_has_its_log(
    account: Account, endpoint: str
) -> None:
    assert invoke(account, endpoint, {"x": 14}) == {"y": 42.0}
    until(
        lambda: account.log("/aws/sagemaker/Endpoints/good", "AllTraffic/"),
        lambda lines: any("Model loaded" in line for line in lines),
    )


def test_an_image_is_told_by_the_digest_that_its_tag_had(account: Account, endpoint: str) -> None:
    """API reference, DeployedImage: registry/repository[:tag] resolves to
    registry/repository[@digest].
    """
    host, _, path = INFERENCE_IMAGE.partition("/")
    repository, _, tag = path.partition(":")
    where = {"registryId": host.split(".")[0], "repositoryName": repository}
    ecr = account.client("ecr")
    (pushed,) = ecr.batch_get_image(**where, imageIds=[{"imageTag": tag}])["images"]
    (variant,) = account.sagemaker.describe_endpoint(EndpointName=endpoint)["ProductionVariants"]
    (image,) = variant["DeployedImages"]
    assert image["SpecifiedImage"] == INFERENCE_IMAGE
    assert image["ResolvedImage"] == f"{host}/{repository}@{pushed['imageId']['imageDigest']}"


def test_a_handler_that_raises_is_a_model_error_with_its_own_status_and_measured(
    account: Account, endpoint: str
) -> None:
    def measured(metric: str, statistic: str) -> list[float]:
        return account.measured(
            "AWS/SageMaker", metric, statistic, EndpointName=endpoint, VariantName="AllTraffic"
        )

    before = sum(measured("Invocation5XXErrors", "Sum"))
    with pytest.raises(ClientError, match="could not convert string to float") as caught:
        invoke(account, endpoint, {"x": "boom"})
    assert caught.value.response["Error"]["Code"] == "ModelError"
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 424
    assert sum(measured("Invocation5XXErrors", "Sum")) - before == 1
    assert max(measured("ModelLatency", "p99")) > 100


def test_an_unknown_endpoint_is_a_validation_error(account: Account) -> None:
    message = r"ValidationError.*Endpoint nobody of account 123456789012 not found"
    with pytest.raises(ClientError, match=message):
        invoke(account, "nobody", {})


@pytest.mark.parametrize(
    ("name", "model", "reason"),
    [
        ("corrupt", GOOD_MODEL[:100], "Failed to extract model data archive from URL s3://"),
        (
            "no-weights",
            archive({"code/inference.py": CODE}),
            r"did not pass the ping health check.*No such file or directory: '/opt/ml/model/model",
        ),
    ],
    ids=["corrupt", "no-weights"],  # an archive's bytes have the time in them
)
def test_a_model_that_does_not_load_fails_the_endpoint(
    account: Account, name: str, model: bytes, reason: str
) -> None:
    configure(account, name, model)
    failed = create(account, name)
    assert failed["EndpointStatus"] == "Failed"
    assert re.search(reason, failed["FailureReason"])


def test_an_endpoint_that_is_being_created_cannot_be_deleted(account: Account) -> None:
    deploy(account, "early", GOOD_MODEL)
    with pytest.raises(ClientError, match=f'Cannot update in-progress endpoint "{ARN}/early"'):
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
    with pytest.raises(ClientError, match=f'ValidationEx.*Could not find endpoint "{ARN}/short"'):
        account.sagemaker.describe_endpoint(EndpointName="short")
    assert not servers_of(account, "short")
    assert {path.name for path in folder.iterdir() if path.is_dir()} == set()
    assert "Model loaded" in (folder / "log.txt").read_text()


def test_an_update_that_fails_leaves_the_old_model_in_service(
    account: Account, endpoint: str
) -> None:
    configure(account, "worse", b"no archive")
    account.sagemaker.update_endpoint(EndpointName=endpoint, EndpointConfigName="worse")
    assert settled(account, endpoint)["EndpointConfigName"] == "good"
    assert invoke(account, endpoint, {"x": 1}) == {"y": 3.0}


@pytest.mark.nightly
def test_a_container_that_never_answers_fails_the_endpoint_after_its_time(
    account: Account,
) -> None:
    variant = {"ContainerStartupHealthCheckTimeoutInSeconds": 60}
    configure(account, "never-loads", model_of("7", load_s="600"), variant)
    assert "No answer within 60 s." in create(account, "never-loads")["FailureReason"]


@pytest.mark.parametrize(
    "name", ["djl-inference:0.36.0-lmi28.0.0-cu130", "vllm:server-sagemaker-cuda-v1"]
)
def test_a_container_for_language_models_is_refused_by_name(account: Account, name: str) -> None:
    image = f"763104351884.dkr.ecr.us-east-1.amazonaws.com/{name}"
    with pytest.raises(ClientError, match=f"does not emulate the image {re.escape(image)}"):
        configure_container(account, "language", {"Image": image})
    with pytest.raises(ClientError, match="Could not find model"):
        account.sagemaker.describe_model(ModelName="language")
