"""The variant whose training reads an FSx for Lustre file system, with a small set of real digits,
from `shoal deploy` to `shoal destroy`: real CLI, stacks, pipeline, training.
"""

import signal
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from local_kit.control import eventually
from shoal.aws.target import Target
from shoal.verbs.local_server import port_answers
from tests.end_to_end.conftest import Checkout, Finished
from tests.processes import mentioning
from tests.training_code.training import write_subset

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1200)]
PIPELINE = "shoal-mnist-fsx"
BUCKET = f"{PIPELINE}-data-111122223333-us-east-1"


def test_training_reads_the_file_system_and_a_destruction_goes_on_until_nothing_is_left(
    checkout: Checkout, tmp_path: Path
) -> None:
    """Policies are enforced: FSx reads the bucket with its own role, through the key's policy."""
    own = checkout.with_environment(tmp_path, "fsx")
    with own.emulator("fsx"):
        own.succeed("deploy", "fsx", "--local")
        target = own.local_target
        upload(target, own.root / "digits")
        own.succeed("run", "fsx", "--local")
        check_training(target)
        own.succeed("run", "fsx", "--local")
        interrupted = cut_off(own, "stopping execution", signal.SIGINT)
        assert interrupted.exit_code == 130, interrupted.output
        killed = cut_off(own, "destroying...", signal.SIGKILL)
        assert killed.exit_code == -signal.SIGKILL, killed.output
        assert f"nothing named {PIPELINE} is left" in own.succeed("destroy", "fsx", "--local")
        assert "are gone" in own.succeed("local", "down")
        assert not port_answers(str(target.endpoint_url))
        assert mentioning(str(own.root)) == ()


def upload(target: Target, folder: Path) -> None:
    """Upload the digits, after the file system was linked to the bucket."""
    write_subset(folder, train=8000, test=2000)
    for path in folder.rglob("*-ubyte"):
        target.client("s3").upload_file(
            str(path), BUCKET, f"datasets/mnist/{path.relative_to(folder)}"
        )


def check_training(target: Target) -> None:
    """Wait until the execution has evaluated: what comes then does not differ from other variants.

    The training's channels must be folders of the file system.
    """
    client = target.client("sagemaker")
    executions = client.list_pipeline_executions(PipelineName=PIPELINE)
    arn = executions["PipelineExecutionSummaries"][0]["PipelineExecutionArn"]

    def statuses() -> dict[str, str]:
        steps = client.list_pipeline_execution_steps(PipelineExecutionArn=arn)
        return {each["StepName"]: each["StepStatus"] for each in steps["PipelineExecutionSteps"]}

    ended = {"Succeeded", "Failed", "Stopped"}
    eventually(lambda: statuses().get("Evaluate") in ended or "Failed" in statuses().values(), 240)
    found = statuses()
    assert found.items() >= {"Train": "Succeeded", "Evaluate": "Succeeded"}.items(), found
    (job,) = client.list_training_jobs()["TrainingJobSummaries"]
    described = client.describe_training_job(TrainingJobName=job["TrainingJobName"])
    (file_system,) = target.client("fsx").describe_file_systems()["FileSystems"]
    mount_name = file_system["LustreConfiguration"]["MountName"]
    assert [
        channel["DataSource"]["FileSystemDataSource"]["DirectoryPath"]
        for channel in described["InputDataConfig"]
    ] == [f"/{mount_name}/datasets/mnist/{channel}" for channel in ("train", "test")]


def cut_off(checkout: Checkout, text: str, number: signal.Signals) -> Finished:
    """Return the end of a `shoal destroy` that gets a signal when it, or the CDK's CLI below
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
    return Finished(code, "".join(said))
