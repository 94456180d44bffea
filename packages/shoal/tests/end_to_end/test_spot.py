"""Managed spot training: capacity is taken away, the job gets SIGTERM and time to write a
checkpoint, and goes on from it elsewhere.
"""

import io
import json
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from local_kit.control import running
from local_kit.sagemaker_account import BUCKET, Account, archive, channel, until
from shoal.settings.parsing.plain_files import archive_files
from shoal_local.runtimes.build import build
from shoal_local.runtimes.catalog import runtimes
from tests.repository import ROOT
from tests.training_code.training import write_subset

CODE = ROOT / "training_code" / "mnist" / "pytorch"
PROGRAM = Path(__file__).parent / "programs" / "held.py"
HOLD_STEP = 5
# 256 steps without a checkpoint of its own before the end.
HYPERPARAMETERS = {
    "epochs": "1",
    "batch-size": "8",
    "log-every": "1",
    "checkpoint-every": "10000",
    "precision": "fp32",
}
SPOT: dict[str, Any] = {
    "EnableManagedSpotTraining": True,
    "StoppingCondition": {"MaxRuntimeInSeconds": 300, "MaxWaitTimeInSeconds": 300},
}
GRACE_S = 100.0


@dataclass(frozen=True)
class Market:
    """An account whose spot capacity a test takes away."""

    account: Account
    faults: Path

    def interrupt(self, job: str) -> None:
        """Once, now."""
        fault = {"seam": "spot", "do": "interrupt", "name": job, "times": 1}
        with self.faults.open("a") as file:
            file.write(json.dumps(fault) + "\n")

    def start(self, job: str, after: str = "", *, is_held: bool = False) -> None:
        """The project's own PyTorch training, with a checkpoint folder of its own in S3, or that of
        the job which it comes `after`. One that is held waits for SIGTERM in its step HOLD_STEP.
        """
        toolkit = {
            "sagemaker_program": PROGRAM.name,
            "sagemaker_submit_directory": f"s3://{BUCKET}/code/project.tar.gz",
        }
        threads = {"OMP_NUM_THREADS": "1"}  # two of them run at the same time
        request = self.account.training(
            job,
            InputDataConfig=[
                channel(f"s3://{BUCKET}/digits/{name}/", name) for name in ("train", "test")
            ],
            CheckpointConfig={
                "S3Uri": f"s3://{BUCKET}/checkpoints/{after or job}",
                "LocalPath": "/opt/ml/checkpoints",
            },
            hyperparameters=HYPERPARAMETERS | toolkit,
            Environment=threads | ({"HOLD_STEP": str(HOLD_STEP)} if is_held else {}),
            **SPOT,
        )
        self.account.sagemaker.create_training_job(**request)

    def start_held(self, job: str) -> None:
        """A job that is held, once it has trained for some steps."""
        self.start(job, is_held=True)
        until(lambda: self.log(job), lambda text: f"step={HOLD_STEP - 1}/" in text, 120)

    def log(self, job: str) -> str:
        """What the job has printed, without CloudWatch's delay."""
        file = self.account.state_dir / "sagemaker-jobs" / f"training-{job}" / "log.txt"
        return file.read_text() if file.exists() else ""

    def weights(self, job: dict[str, Any]) -> bytes:
        packed = self.account.get(job["ModelArtifacts"]["S3ModelArtifacts"])
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            file = tar.extractfile("model.pt")
            assert file is not None
            return file.read()


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Market]:
    build(runtimes()["pytorch"], None, print)
    folder = tmp_path_factory.mktemp("spot")
    write_subset(folder / "digits", train=2048, test=128)
    (folder / "faults").touch()
    options = ("--faults", str(folder / "faults"), "--duration", f"stop_grace_s={GRACE_S}")
    with running(folder / "state", *options) as emulator:
        account = Account.at(emulator)
        for path in (folder / "digits").rglob("*-ubyte"):
            account.put(f"digits/{path.parent.name}/{path.name}", path.read_bytes())
        files = {PROGRAM.name: PROGRAM, **archive_files(CODE)}
        code = archive({name: path.read_bytes() for name, path in files.items()})
        account.put("code/project.tar.gz", code)
        yield Market(account, folder / "faults")


def statuses(job: dict[str, Any]) -> list[str]:
    return [each["Status"] for each in job["SecondaryStatusTransitions"]]


@pytest.fixture(scope="module")
def undisturbed(market: Market) -> bytes:
    """The weights of a job that nothing happens to."""
    market.start("undisturbed")
    job = market.account.training_ended("undisturbed")
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert "resumed" not in market.log("undisturbed")
    return market.weights(job)


@pytest.mark.nightly
def test_the_job_after_one_that_was_stopped_goes_on_to_the_bits_of_an_undisturbed_one(
    market: Market, undisturbed: bytes
) -> None:
    """As a retry does, whose job has another name and, in the same execution, the same
    checkpoints.
    """
    market.start_held("stopped")
    market.account.sagemaker.stop_training_job(TrainingJobName="stopped")
    assert market.account.training_ended("stopped")["TrainingJobStatus"] == "Stopped"
    market.start("next", after="stopped")
    job = market.account.training_ended("next")
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert "resumed at epoch=1 step=" in market.log("next")
    assert market.weights(job) == undisturbed


@pytest.fixture(scope="module")
def disturbed(market: Market) -> dict[str, Any]:
    """A spot job whose capacity is taken away after some steps."""
    market.start_held("disturbed")
    market.interrupt("disturbed")
    return market.account.training_ended("disturbed")


def test_an_interrupted_spot_job_goes_on(market: Market, disturbed: dict[str, Any]) -> None:
    assert disturbed["TrainingJobStatus"] == "Completed", disturbed.get("FailureReason")
    begins = ["Starting", "Downloading", "Training"]
    assert statuses(disturbed) == [*begins, "Interrupted", *begins, "Uploading", "Completed"]
    assert "stopped on SIGTERM at epoch=1 step=" in market.log("disturbed")
    # there is no checkpoint but the one that SIGTERM made
    assert "resumed at epoch=1 step=" in market.log("disturbed")


@pytest.mark.nightly
def test_an_interrupted_spot_job_ends_with_the_bits_of_an_undisturbed_one(
    market: Market, disturbed: dict[str, Any], undisturbed: bytes
) -> None:
    assert market.weights(disturbed) == undisturbed


@pytest.mark.nightly
def test_a_job_that_was_interrupted_waits_and_trains_no_longer_than_it_may(market: Market) -> None:
    limits: dict[str, Any] = {
        "StoppingCondition": {"MaxRuntimeInSeconds": 20, "MaxWaitTimeInSeconds": 20}
    }
    market.interrupt("too-long")
    started_at = time.monotonic()
    job = market.account.train("too-long", hyperparameters={"do": "wait"}, **SPOT | limits)
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == (
        "Stopped",
        "MaxWaitTimeExceeded",
    )
    assert "Interrupted" in statuses(job)
    assert time.monotonic() - started_at < GRACE_S  # SIGTERM was enough, both times


def test_a_job_on_demand_is_not_interrupted(market: Market) -> None:
    market.interrupt("on-demand")
    job = market.account.train("on-demand")
    assert (job["TrainingJobStatus"], "Interrupted" in statuses(job)) == ("Completed", False)
