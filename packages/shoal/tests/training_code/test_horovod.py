"""Horovod's ranks learn what train.py learns, and continue where they were killed."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from local_kit.runtime import Runtime
from tests.training_code.conftest import STEPS, Trained
from tests.training_code.training import (
    OPTIONS,
    Job,
    accuracies,
    children,
    losses,
    position_of,
    stop_at,
)


def new_job(
    runtime: Runtime, dataset: Path, folder: Path, options: Sequence[str] = Job.options
) -> Job:
    """Return a job that is started as the toolkit does for Horovod, without smddprun."""
    return Job(runtime, dataset, folder, "mpi", 2, options, script="train_horovod.py")


def test_two_horovod_ranks_give_the_loss_curve_and_the_accuracy_of_one(
    runtime: Runtime, trained: Trained, dataset: Path, tmp_path: Path
) -> None:
    job = new_job(runtime, dataset, tmp_path)
    output = job.run().output
    assert losses(output) == pytest.approx(losses(trained.outcome.output), rel=2e-3, abs=2e-4)
    assert accuracies(output) == pytest.approx(accuracies(trained.outcome.output), abs=0.003)
    metadata = json.loads((job.model_dir / "model.json").read_text())
    assert (metadata["backend"], metadata["world_size"]) == ("horovod", 2)


@pytest.fixture(scope="module")
def undisturbed(runtime: Runtime, dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the weights of a job that nothing happened to."""
    job = new_job(runtime, dataset, tmp_path_factory.mktemp("undisturbed"), OPTIONS)
    assert job.run().returncode == 0
    return job.weights


@pytest.mark.nightly
def test_a_killed_and_resumed_horovod_job_equals_an_undisturbed_one_to_the_bit(
    runtime: Runtime, dataset: Path, tmp_path: Path, undisturbed: bytes
) -> None:
    job = new_job(runtime, dataset, tmp_path, OPTIONS)
    job.run_until(f"epoch=2 step=5/{STEPS}", signal.SIGKILL)
    assert (2, 3) <= position_of(job.run().output) < (12, STEPS)
    assert job.weights == undisturbed


@pytest.mark.nightly
def test_sigterm_ends_a_horovod_job_with_a_checkpoint_from_which_it_resumes_to_the_bit(
    runtime: Runtime, dataset: Path, tmp_path: Path, undisturbed: bytes
) -> None:
    """Each rank gets the signal, not mpirun, which would kill them about a second later."""
    job = new_job(runtime, dataset, tmp_path, OPTIONS)
    process = job.start()
    stopped = stop_at(process, f"epoch=2 step=4/{STEPS}", lambda: children(process))
    assert (stopped.returncode, job.model_dir.exists()) == (128 + signal.SIGTERM, False), (
        stopped.output
    )
    assert "stopped on SIGTERM at epoch=" in stopped.output
    # A job that was killed would continue at step 3.
    assert (2, 4) <= position_of(job.run().output) < (12, STEPS)
    assert job.weights == undisturbed
