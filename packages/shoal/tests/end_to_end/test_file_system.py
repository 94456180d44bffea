"""The variant whose training reads an FSx for Lustre file system, with a small set of real digits,
from `shoal deploy` to `shoal destroy`: real CLI, stacks, pipeline, training.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from local_kit.control import eventually
from shoal.aws.target import Target
from shoal.verbs.local_server import port_answers
from tests.end_to_end.conftest import Checkout, Finished
from tests.processes import mentioning
from tests.training_code.training import write_subset

pytestmark = pytest.mark.nightly
PIPELINE = "shoal-mnist-fsx"
BUCKET = f"{PIPELINE}-data-111122223333-us-east-1"
ENVIRONMENT = """
name: fsx
workload: mnist
account: "111122223333"
region: us-east-1
protect: false
data: {input_mode: FSx}
file_system: {}
training: {strategy: none, instance_type: ml.m5.xlarge, hyperparameters: {epochs: 2, batch-size: 64, learning-rate: 0.01, seed: 1}}
evaluation: {gates: [{metric: accuracy, at_least: 0.9}]}
"""  # noqa: E501


@pytest.fixture(scope="module")
def fsx(checkout: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    own = checkout.with_environment(tmp_path_factory.mktemp("fsx"), "fsx", ENVIRONMENT)
    with own.emulator("fsx"):
        yield own


@pytest.fixture(scope="module")
def target(fsx: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Target:
    """The emulator with the environment deployed; the digits are uploaded after the file system was
    linked to the bucket.

    Policies are enforced: FSx reads the bucket with its own role, through the key's policy.
    """
    fsx.succeed("deploy", "fsx", "--local")
    target = fsx.local_target
    _upload(target, tmp_path_factory.mktemp("digits"))
    return target


def _upload(target: Target, folder: Path) -> None:
    write_subset(folder, train=8000, test=2000)
    for path in folder.rglob("*-ubyte"):
        target.client("s3").upload_file(
            str(path), BUCKET, f"datasets/mnist/{path.relative_to(folder)}"
        )


@dataclass(frozen=True)
class Evaluated:
    """An execution when it has evaluated: what comes then does not differ from other variants."""

    steps: dict[str, str]
    """Status by name."""
    folders: list[str]
    """What the training job's channels read."""
    mount_name: str


@pytest.fixture(scope="module")
def evaluated(fsx: Checkout, target: Target) -> Evaluated:
    fsx.succeed("run", "fsx", "--local")
    client = target.client("sagemaker")
    executions = client.list_pipeline_executions(PipelineName=PIPELINE)
    arn = executions["PipelineExecutionSummaries"][0]["PipelineExecutionArn"]

    def statuses() -> dict[str, str]:
        steps = client.list_pipeline_execution_steps(PipelineExecutionArn=arn)
        return {each["StepName"]: each["StepStatus"] for each in steps["PipelineExecutionSteps"]}

    ended = {"Succeeded", "Failed", "Stopped"}
    eventually(lambda: statuses().get("Evaluate") in ended or "Failed" in statuses().values(), 240)
    (job,) = client.list_training_jobs()["TrainingJobSummaries"]
    described = client.describe_training_job(TrainingJobName=job["TrainingJobName"])
    (file_system,) = target.client("fsx").describe_file_systems()["FileSystems"]
    return Evaluated(
        statuses(),
        [
            channel["DataSource"]["FileSystemDataSource"]["DirectoryPath"]
            for channel in described["InputDataConfig"]
        ],
        file_system["LustreConfiguration"]["MountName"],
    )


@dataclass(frozen=True)
class Destroyed:
    """Exit code and output of three calls of `shoal destroy`, and of `local down` after them."""

    interrupted: tuple[int, str]
    killed: tuple[int, str]
    last: Finished
    down: Finished


@pytest.fixture(scope="module")
def destroyed(fsx: Checkout, evaluated: Evaluated) -> Destroyed:
    """The environment, while an execution runs: Ctrl-C while that is stopped, then SIGKILL while
    the stacks are deleted, then undisturbed.
    """
    assert evaluated
    fsx.succeed("run", "fsx", "--local")
    return Destroyed(
        interrupted=cut_off(fsx, "stopping execution", signal.SIGINT),
        killed=cut_off(fsx, "destroying...", signal.SIGKILL),
        last=fsx.run("destroy", "fsx", "--local"),
        down=fsx.run("local", "down"),
    )


def cut_off(checkout: Checkout, text: str, number: signal.Signals) -> tuple[int, str]:
    """Exit code and output of a `shoal destroy` that gets a signal when it, or the CDK's CLI below
    it, has said `text`.
    """
    log = checkout.root / ".shoal" / "cdk" / "fsx" / "cdk-destroy.log"
    process = checkout.start("destroy", "fsx", "--local")
    said: list[str] = []

    def listen(lines: Iterable[str]) -> None:
        for line in lines:
            said.append(line)

    assert process.stdout is not None
    reader = threading.Thread(target=listen, args=(process.stdout,), daemon=True)
    reader.start()
    deadline = time.monotonic() + 240
    while text not in "".join(said) + (log.read_text() if log.exists() else ""):
        assert process.poll() is None, "".join(said)
        assert time.monotonic() < deadline, "".join(said)
        time.sleep(0.02)
    process.send_signal(number)
    code = process.wait(120)
    reader.join(30)
    return code, "".join(said)


def test_the_pipeline_trains_and_evaluates(evaluated: Evaluated) -> None:
    ended = {"Train": "Succeeded", "Evaluate": "Succeeded"}
    assert evaluated.steps.items() >= ended.items(), evaluated.steps


def test_training_read_the_file_system_and_not_s3(evaluated: Evaluated) -> None:
    assert evaluated.folders == [
        f"/{evaluated.mount_name}/datasets/mnist/{channel}" for channel in ("train", "test")
    ]


def test_destroy_stops_an_execution_and_after_ctrl_c_and_sigkill_it_goes_on_until_nothing_is_left(
    destroyed: Destroyed,
) -> None:
    assert destroyed.interrupted[0] == 130, destroyed.interrupted[1]
    assert destroyed.killed[0] == -signal.SIGKILL, destroyed.killed[1]
    assert destroyed.last.exit_code == 0, destroyed.last.output
    assert f"nothing named {PIPELINE} is left" in destroyed.last.output


def test_down_leaves_no_process_and_no_port(
    destroyed: Destroyed, target: Target, fsx: Checkout
) -> None:
    assert "are gone" in destroyed.down.output
    assert not port_answers(str(target.endpoint_url))
    assert mentioning(str(fsx.root)) == ()
