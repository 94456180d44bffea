"""Endpoints: InService means that a server process answered /ping; what the model says is what the
caller gets, at once or in parts. Models may be files below a prefix instead of an archive.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from botocore.config import Config
from botocore.eventstream import EventStreamBuffer
from botocore.exceptions import ClientError, EventStreamError

from local_kit.hosted import (
    CODE,
    ENVIRONMENT,
    GOOD_MODEL,
    configure,
    configure_container,
    container_of,
    create,
    deploy,
    invoke,
    model_of,
    remove,
    served,
    servers_of,
    settled,
)
from local_kit.sagemaker_account import (
    BUCKET,
    INFERENCE_IMAGE,
    PROGRAMS,
    Account,
    archive,
    command_lines,
    processing_input,
    until,
)
from shoal_local.errors import AwsError
from shoal_local.sagemaker.core import Core, Settings
from shoal_local.sagemaker.hosting.traffic import Traffic
from shoal_local.sagemaker.store import Store
from shoal_local.server import Emulator
from tests.sagemaker.conftest import Services, deployed

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


def test_an_invocation_after_the_last_fleet_is_a_validation_error(emulator: Emulator) -> None:
    context = emulator.home.context()
    core = Core(context, Store(), Settings())
    with pytest.raises(AwsError, match="ValidationError: Endpoint gone of account"):
        Traffic(core, "gone").answer(b"", {})


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


def test_an_endpoint_that_is_deleted_as_soon_as_it_serves_leaves_no_server(
    account: Account, second_service: Services, tmp_path: Path
) -> None:
    servers: list[list[str]] = []

    def delete(event: Any) -> None:
        if event["detail"].get("EndpointStatus") == "IN_SERVICE":
            service.handle("DeleteEndpoint", {"EndpointName": "swift"}, "caller")
            until(lambda: not service.handle("ListEndpoints", {}, "caller")["Endpoints"], bool)
            servers.append([line for line in command_lines() if str(tmp_path) in line])

    service = second_service(Settings(), emit_event=delete)
    with suppress(AwsError):  # it may be gone before it is seen in service
        deployed(service, account, "swift", container_of(account, "swift", GOOD_MODEL), "InService")
    assert until(lambda: servers, bool) == [[]]


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


MODEL = archive({"code/inference.py": (PROGRAMS / "streaming.py").read_bytes()})


@pytest.fixture(scope="module")
def speaker(account: Account) -> Iterator[str]:
    with served(account, "speaks", MODEL) as name:
        yield name


def speak(account: Account, speaker: str, **request: Any) -> Any:
    client = account.client("sagemaker-runtime", Config(retries={"total_max_attempts": 1}))
    return client.invoke_endpoint_with_response_stream(
        EndpointName=speaker, Body=json.dumps(request), ContentType="application/json"
    )


def texts(events: Any) -> list[str]:
    return [each["PayloadPart"]["Bytes"].decode() for each in events]


def test_a_part_arrives_before_the_next_one_is_made(account: Account, speaker: str) -> None:
    answer = speak(account, speaker, parts=["one", "two", "three"], wait_for="signals/go")
    assert answer["ContentType"] == "text/plain"
    assert answer["InvokedProductionVariant"] == "AllTraffic"
    events = iter(answer["Body"])
    first = next(events)["PayloadPart"]["Bytes"]
    account.put("signals/go", b"")
    assert [first.decode(), *texts(events)] == ["one", "two", "three"]


def test_an_answer_in_one_piece_is_streamed_too(account: Account, speaker: str) -> None:
    long = "x" * 200_000
    assert "".join(texts(speak(account, speaker, parts=[long])["Body"])) == long


def test_a_call_without_a_stream_gets_all_parts_at_once(account: Account, speaker: str) -> None:
    answer = account.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=speaker,
        Body=json.dumps({"parts": ["one", "two"]}),
        ContentType="application/json",
    )
    assert answer["Body"].read() == b"onetwo"


def test_an_error_before_the_first_part_is_a_model_error(account: Account, speaker: str) -> None:
    with pytest.raises(ClientError, match="not this one") as caught:
        speak(account, speaker, parts=["one"], then="refuse")
    assert caught.value.response["Error"]["Code"] == "ModelError"
    assert "server error (500)" in str(caught.value)


def test_a_client_that_leaves_leaves_the_endpoint_to_others(account: Account, speaker: str) -> None:
    answer = speak(account, speaker, parts=["one", "two"], wait_for="signals/left")
    assert next(iter(answer["Body"]))
    answer["Body"].close()
    account.put("signals/left", b"")
    assert texts(speak(account, speaker, parts=["again"])["Body"]) == ["again"]


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
    model = container_of(account, "endless", MODEL)
    deployed(impatient, account, "endless", model, "InService")
    body = json.dumps({"parts": ["one", "two"], "wait_for": "signals/never"}).encode()
    _, _, events = impatient.invoke(
        "InvokeEndpointWithResponseStream", "endless", body, {"content-type": "application/json"}
    )
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


URI = f"s3://{BUCKET}/kept/"
READ = "cd /opt/ml/processing && cp input/m/model.txt report/"


def container(
    uri: str, kind: str = "S3Prefix", compression: str = "None", **more: Any
) -> dict[str, Any]:
    source = {"S3Uri": uri, "S3DataType": kind, "CompressionType": compression}
    data = {"ModelDataSource": {"S3DataSource": source}}
    return {"Image": INFERENCE_IMAGE, "Environment": ENVIRONMENT, **data, **more}


def test_a_job_leaves_its_files_which_the_next_job_reads(account: Account) -> None:
    output = {"S3OutputPath": f"s3://{BUCKET}/out", "CompressionType": "NONE"}
    job = account.train("plain", OutputDataConfig=output)
    uri = job["ModelArtifacts"]["S3ModelArtifacts"]
    assert account.keys("out/plain/output/m") == ["out/plain/output/model/model.txt"]
    source = processing_input(uri, "/opt/ml/processing/input/m")
    read = account.process("reads-plain", READ, ProcessingInputs=[source])
    assert read["ProcessingJobStatus"] == "Completed", read["FailureReason"]


def test_an_endpoint_serves_what_lies_below_a_prefix(account: Account) -> None:
    for name, content in {"model.txt": b"5", "code/inference.py": CODE}.items():
        account.put(f"kept/{name}", content)
    configure_container(account, "kept", container(URI))
    create(account, "kept")
    assert invoke(account, "kept", {"x": 2}) == {"y": 10.0}
    remove(account, "kept")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (container(URI.rstrip("/")), "must end with a forward slash"),
        (container(URI, "S3Object"), "not emulate ModelDataSource with S3Object and None"),
        (container(URI, compression="Gzip"), "not emulate ModelDataSource with S3Prefix and G"),
    ],
)
def test_a_source_that_is_neither_archive_nor_prefix_is_refused(
    account: Account, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(ClientError, match=message):
        account.sagemaker.create_model(
            ModelName="refused", ExecutionRoleArn=account.role, PrimaryContainer=changed
        )
