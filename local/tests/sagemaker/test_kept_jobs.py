"""SageMaker after a restart with `serve --keep`: what was done is still there, and what ran tells
truthfully what has become of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from local.tests.sagemaker.account import ACCOUNT_ID, Account, until
from local.tests.sagemaker.hosted import GOOD_MODEL, deploy, invoke
from local.tests.sagemaker.test_callbacks import ask
from shoal_local import testing
from shoal_local.processes import ProcessRegistry
from shoal_local.sagemaker import names
from shoal_local.sagemaker.service import SageMakerService
from shoal_local.server import Emulator

STOPPED = "InternalServerError: shoal-local was stopped while this ran."
GROUP = "/aws/sagemaker/TrainingJobs"


@dataclass(frozen=True)
class Restarted:
    """The account after the restart, and what was described before it."""

    account: Account
    job: dict[str, Any]
    files: dict[str, str]
    execution: str


def described(account: Account, job: str) -> dict[str, Any]:
    description: dict[str, Any] = account.sagemaker.describe_training_job(TrainingJobName=job)
    return description


def without_metadata(answer: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if key != "ResponseMetadata"}


def endpoint(account: Account, name: str) -> dict[str, Any]:
    description: dict[str, Any] = until(
        lambda: account.sagemaker.describe_endpoint(EndpointName=name),
        lambda each: each["EndpointStatus"] in {"InService", "Failed"},
        timeout_s=240,
    )
    return description


def fill(account: Account) -> tuple[dict[str, Any], str]:
    """Complete a job, and leave a job, an execution and an endpoint running."""
    job = account.train("complete")
    url = account.client("sqs").create_queue(QueueName="questions")["QueueUrl"]
    account.deploy_pipeline("kept", [ask()])
    arn = account.sagemaker.start_pipeline_execution(PipelineName="kept")["PipelineExecutionArn"]
    account.client("sqs").receive_message(QueueUrl=url, WaitTimeSeconds=20)
    deploy(account, "serves", GOOD_MODEL)
    assert endpoint(account, "serves")["EndpointStatus"] == "InService"
    account.sagemaker.create_training_job(
        **account.training("runs", hyperparameters={"do": "wait"})
    )
    until(lambda: account.log(GROUP, "runs"), lambda lines: "waiting" in lines)
    return described(account, job["TrainingJobName"]), arn


@pytest.fixture(scope="module")
def restarted(runtime: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restarted]:
    assert runtime.exists()
    state_dir = tmp_path_factory.mktemp("kept") / "state"
    options = ("--keep", "--account", ACCOUNT_ID)
    with testing.emulator(state_dir, *options) as local:
        account = Account.at(local.account)
        job, execution = fill(account)
        files = account.model_files(job)
    with testing.emulator(state_dir, *options) as local:
        account = Account(local.account.endpoint, state_dir, local.account.number)
        yield Restarted(account, job, files, execution)


def test_a_completed_job_is_described_as_before_and_has_its_log_and_model(
    restarted: Restarted,
) -> None:
    account, job = restarted.account, described(restarted.account, "complete")
    assert without_metadata(job) == without_metadata(restarted.job)
    assert account.model_files(job) == restarted.files
    assert "epoch=2 loss=0.125" in account.log(GROUP, "complete")


def test_a_job_that_ran_has_failed_with_a_reason(restarted: Restarted) -> None:
    job = described(restarted.account, "runs")
    last = job["SecondaryStatusTransitions"][-1]
    assert (job["TrainingJobStatus"], job["FailureReason"]) == ("Failed", STOPPED)
    assert (job["SecondaryStatus"], last["StatusMessage"]) == ("Failed", STOPPED)


def test_an_execution_that_ran_has_failed_with_its_step_and_can_be_retried(
    restarted: Restarted,
) -> None:
    account = restarted.account
    execution = account.execution_ended(restarted.execution)
    step = account.steps(execution)["Ask"]
    assert (execution["PipelineExecutionStatus"], execution["FailureReason"]) == ("Failed", STOPPED)
    assert (step["StepStatus"], step["FailureReason"]) == ("Failed", STOPPED)
    account.sagemaker.retry_pipeline_execution(
        PipelineExecutionArn=restarted.execution, ClientRequestToken="t" * 32
    )
    url = account.client("sqs").get_queue_url(QueueName="questions")["QueueUrl"]
    (received,) = account.client("sqs").receive_message(QueueUrl=url, WaitTimeSeconds=20)[
        "Messages"
    ]
    assert restarted.execution in received["Body"]


def test_an_endpoint_answers_from_a_new_server(restarted: Restarted) -> None:
    description = endpoint(restarted.account, "serves")
    assert (description["EndpointStatus"], description.get("FailureReason")) == ("InService", None)
    assert invoke(restarted.account, "serves", {"x": 14}) == {"y": 42.0}


@pytest.fixture
def successor(emulator: Emulator, tmp_path: Path) -> Iterator[SageMakerService]:
    """A second service behind the same endpoint, with nothing of its own."""
    context = dataclasses.replace(
        emulator.home.context(), state_dir=tmp_path, processes=ProcessRegistry(tmp_path)
    )
    service = SageMakerService(context)
    yield service
    service.close()


def resumed(service: SageMakerService, kind: str, document: dict[str, Any]) -> None:
    service.restore({"documents": {kind: {"it": {"_name": "it", **document}}}})
    service.resume()


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("InService", "started again, and its endpoint configuration gone is gone"),
        ("Creating", "started again, and its endpoint configuration gone is gone"),
        ("Updating", "stopped during an update of the endpoint"),
        ("Failed", "The reason of before"),
    ],
)
def test_an_endpoint_without_a_server_is_failed_and_can_be_deleted(
    successor: SageMakerService, status: str, reason: str
) -> None:
    document = {
        "EndpointName": "it",
        "EndpointArn": f"arn:aws:sagemaker:us-east-1:{ACCOUNT_ID}:endpoint/it",
        "EndpointConfigName": "gone",
        "EndpointStatus": status,
        "CreationTime": 1.0,
        "LastModifiedTime": 1.0,
        "FailureReason": "The reason of before",
    }
    resumed(successor, "endpoint", document)
    after = successor.handle("DescribeEndpoint", {"EndpointName": "it"}, "caller")
    assert (after["EndpointStatus"], reason in after["FailureReason"]) == ("Failed", True)
    successor.handle("DeleteEndpoint", {"EndpointName": "it"}, "caller")
    until(
        lambda: successor.handle("ListEndpoints", {}, "caller")["Endpoints"], lambda each: not each
    )


def tracking_server(status: str) -> dict[str, Any]:
    return {
        "TrackingServerName": "it",
        "TrackingServerArn": f"arn:aws:sagemaker:us-east-1:{ACCOUNT_ID}:mlflow-tracking-server/it",
        "MlflowVersion": "3.17.2",
        "TrackingServerStatus": status,
        "IsActive": "Active",
        "ArtifactStoreUri": "s3://bucket/mlflow",
        "RoleArn": f"arn:aws:iam::{ACCOUNT_ID}:role/it",
    }


def server_status(service: SageMakerService) -> tuple[str, str]:
    request = {"TrackingServerName": "it"}
    answer = service.handle("DescribeMlflowTrackingServer", request, "caller")
    return answer["TrackingServerStatus"], answer["IsActive"]


@pytest.mark.parametrize("status", ["Created", "Started", "Starting", "Stopping"])
def test_a_tracking_server_without_its_database_is_stopped(
    successor: SageMakerService, status: str
) -> None:
    resumed(successor, "mlflow-tracking-server", tracking_server(status))
    assert server_status(successor) == ("Stopped", "Inactive")


def test_a_tracking_server_that_cannot_run_again_on_its_database_has_failed(
    successor: SageMakerService, tmp_path: Path
) -> None:
    database = tmp_path / "sagemaker-jobs" / "tracking-it" / "tracking-server" / "ml" / "mlflow.db"
    database.parent.mkdir(parents=True)
    database.touch()  # its role is gone
    resumed(successor, "mlflow-tracking-server", tracking_server("Created"))
    assert until(lambda: server_status(successor), lambda each: each[0] != "Starting") == (
        "StartFailed",
        "Inactive",
    )


def test_a_tracking_server_that_was_being_deleted_is_gone(successor: SageMakerService) -> None:
    resumed(successor, "mlflow-tracking-server", tracking_server("Deleting"))
    until(
        lambda: successor.handle("ListMlflowTrackingServers", {}, "caller"),
        lambda each: not each["TrackingServerSummaries"],
    )


def test_a_warm_pool_ends_with_its_emulator(successor: SageMakerService) -> None:
    job = {
        "TrainingJobStatus": "Completed",
        "TrainingEndTime": names.now(),
        "WarmPoolStatus": {"Status": "Available"},
        "_pool_until": names.now() + 600,
    }
    resumed(successor, "training-job", job)
    (kept,) = dict(successor.kept["documents"])["training-job"].values()
    assert kept["WarmPoolStatus"]["Status"] == "Terminated"


@pytest.mark.parametrize(
    ("kind", "prefix", "ended"),
    [
        ("processing-job", "ProcessingJob", "ProcessingEndTime"),
        ("transform-job", "TransformJob", "TransformEndTime"),
        ("tuning-job", "HyperParameterTuningJob", "HyperParameterTuningEndTime"),
    ],
)
def test_every_kind_of_job_that_ran_has_failed(
    successor: SageMakerService, kind: str, prefix: str, ended: str
) -> None:
    resumed(successor, kind, {f"{prefix}Status": "Stopping", f"{prefix}Arn": "arn"})
    (kept,) = dict(successor.kept["documents"])[kind].values()
    assert (kept[f"{prefix}Status"], kept["FailureReason"], ended in kept) == (
        "Failed",
        STOPPED,
        True,
    )
