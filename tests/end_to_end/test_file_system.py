"""The variant whose training reads an FSx for Lustre file system, with a small set of real digits:
real CLI, stacks, pipeline, training.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local.tests.control.account import eventually
from shoal.verbs.target import Target
from tests.end_to_end.conftest import Checkout
from tests.training_code.mnist import write_subset

BUCKET = "shoal-mnist-fsx-data-111122223333-us-east-1"
ENVIRONMENT = """
name: fsx
account: "111122223333"
region: us-east-1
protect: false
data: {input_mode: FSx}
file_system: {}
training: {strategy: none, instance_type: ml.m5.xlarge, hyperparameters: {epochs: 2, batch-size: 64, learning-rate: 0.01, seed: 1}}
evaluation: {min_accuracy: 0.9}
"""  # noqa: E501


@pytest.fixture(scope="module")
def fsx(checkout: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    own = checkout.with_environment(tmp_path_factory.mktemp("fsx"), "fsx", ENVIRONMENT)
    yield own
    own.run("local", "down")


@pytest.fixture(scope="module")
def target(fsx: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Target:
    """The emulator with the environment deployed; the digits are uploaded after the file system was
    linked to the bucket.

    Policies are enforced: FSx reads the bucket with its own role, through the key's policy.
    """
    started = fsx.run("local", "up", "fsx", "--enforce-iam")
    deployed = fsx.run("deploy", "fsx", "--local")
    assert deployed.exit_code == 0, f"{started.output}{deployed.output}"
    target = fsx.local_target
    _upload(target, tmp_path_factory.mktemp("digits"))
    return target


def _upload(target: Target, folder: Path) -> None:
    write_subset(folder, train=8000, test=2000)
    for path in folder.rglob("*-ubyte"):
        target.client("s3").upload_file(
            str(path), BUCKET, f"datasets/mnist/{path.relative_to(folder)}"
        )


@pytest.fixture(scope="module")
def evaluated(fsx: Checkout, target: Target) -> dict[str, str]:
    """The status of each step of an execution once it has evaluated: what comes then does not
    differ from other variants.
    """
    started = fsx.run("run", "fsx", "--local")
    assert started.exit_code == 0, started.output
    client = target.client("sagemaker")
    (execution,) = client.list_pipeline_executions(PipelineName="shoal-mnist-fsx")[
        "PipelineExecutionSummaries"
    ]
    arn = execution["PipelineExecutionArn"]

    def statuses() -> dict[str, str]:
        steps = client.list_pipeline_execution_steps(PipelineExecutionArn=arn)
        return {each["StepName"]: each["StepStatus"] for each in steps["PipelineExecutionSteps"]}

    ended = {"Succeeded", "Failed", "Stopped"}
    eventually(lambda: statuses().get("Evaluate") in ended or "Failed" in statuses().values(), 240)
    steps = statuses()
    client.stop_pipeline_execution(PipelineExecutionArn=arn)
    return steps


def test_the_pipeline_trains_and_evaluates(evaluated: dict[str, str]) -> None:
    assert (evaluated.get("Train"), evaluated.get("Evaluate")) == ("Succeeded", "Succeeded")


@pytest.mark.usefixtures("evaluated")
def test_training_read_the_file_system_and_not_s3(target: Target) -> None:
    sagemaker = target.client("sagemaker")
    (job,) = sagemaker.list_training_jobs()["TrainingJobSummaries"]
    sources: list[dict[str, Any]] = [
        channel["DataSource"]
        for channel in sagemaker.describe_training_job(TrainingJobName=job["TrainingJobName"])[
            "InputDataConfig"
        ]
    ]
    (file_system,) = target.client("fsx").describe_file_systems()["FileSystems"]
    mount_name = file_system["LustreConfiguration"]["MountName"]
    assert [source["FileSystemDataSource"]["DirectoryPath"] for source in sources] == [
        f"/{mount_name}/datasets/mnist/{channel}" for channel in ("train", "test")
    ]
