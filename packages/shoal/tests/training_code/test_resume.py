"""A job that is killed or stopped continues where it was, to the bit; a job that cannot continue
says why.
"""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from local_kit.runtime import Runtime
from tests.training_code.conftest import STEPS, Trained
from tests.training_code.training import OPTIONS, Job, children, losses, position_of, stop_at

STOPPED = 128 + signal.SIGTERM
# 320 steps without a checkpoint of its own before the end.
ONE_LONG_EPOCH = (
    *("--epochs", "1", "--batch-size", "8"),
    *("--log-every", "1", "--checkpoint-every", "1000"),
)


def jobs(runtime: Runtime, dataset: Path, folder: Path, ranks: int) -> tuple[Job, Job]:
    """Return the same job twice, each with its own folders."""
    undisturbed, disturbed = (
        Job(runtime, dataset, folder / name, launcher="mpirun", ranks=ranks, options=OPTIONS)
        for name in ("undisturbed", "disturbed")
    )
    return undisturbed, disturbed


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.nightly), 2])
def test_a_killed_and_resumed_job_equals_an_undisturbed_one_to_the_bit(
    runtime: Runtime, dataset: Path, tmp_path: Path, ranks: int
) -> None:
    undisturbed, disturbed = jobs(runtime, dataset, tmp_path, ranks)
    expected = undisturbed.run().output
    disturbed.run_until(f"epoch=2 step=5/{STEPS}", signal.SIGKILL)
    assert not disturbed.model_dir.exists()
    resumed = disturbed.run().output
    assert (2, 3) <= position_of(resumed) < (12, STEPS)
    assert losses(resumed) == {
        position: loss
        for position, loss in losses(expected).items()
        if position > position_of(resumed)
    }
    assert disturbed.weights == undisturbed.weights


@pytest.mark.parametrize(
    ("launcher", "ranks", "status"),
    [
        ("alone", 1, STOPPED),
        pytest.param("torchrun", 2, None, marks=pytest.mark.nightly),  # has a status of its own
        # each rank gets the signal, not mpirun, which would kill them about a second later
        ("mpirun", 2, None),
    ],
)
def test_sigterm_ends_the_job_with_a_checkpoint_and_without_a_model(
    runtime: Runtime, dataset: Path, tmp_path: Path, launcher: str, ranks: int, status: int | None
) -> None:
    job = Job(runtime, dataset, tmp_path, launcher, ranks, ONE_LONG_EPOCH)
    if launcher == "mpirun":
        process = job.start()
        outcome = stop_at(process, "step=4/", lambda: children(process))
    else:
        outcome = job.run_until("step=4/", signal.SIGTERM)
        assert "stopped on SIGTERM at epoch=1 step=" in outcome.output
    assert (job.checkpoint_dir / "checkpoint.pt").exists()
    assert not job.model_dir.exists()
    assert outcome.returncode == status or (status is None and outcome.returncode != 0)


@pytest.mark.nightly
def test_a_job_that_was_stopped_by_sigterm_resumes_to_the_bits_of_an_undisturbed_one(
    runtime: Runtime, dataset: Path, tmp_path: Path
) -> None:
    undisturbed, disturbed = jobs(runtime, dataset, tmp_path, ranks=2)
    undisturbed.run()
    process = disturbed.start()
    stop_at(process, f"epoch=2 step=4/{STEPS}", lambda: children(process))
    assert not disturbed.model_dir.exists()
    assert (2, 4) <= position_of(disturbed.run().output) < (12, STEPS)
    assert disturbed.weights == undisturbed.weights


@pytest.mark.nightly
@pytest.mark.parametrize("precision", [pytest.param("fp32", marks=pytest.mark.nightly), "bf16"])
def test_a_job_that_chooses_its_precision_keeps_that_of_its_checkpoint(
    runtime: Runtime, dataset: Path, tmp_path: Path, precision: str
) -> None:
    common = ("--epochs", "12", "--log-every", "1", "--checkpoint-every", "3")
    job = Job(runtime, dataset, tmp_path, options=(*common, "--precision", precision))
    job.run_until("epoch=1 step=5/", signal.SIGKILL)
    outcome = replace(job, options=common).run()
    assert f"precision={precision}, as in the checkpoint" in outcome.output
    assert position_of(outcome.output) >= (1, 3)


def test_a_damaged_checkpoint_is_named(runtime: Runtime, dataset: Path, tmp_path: Path) -> None:
    job = Job(runtime, dataset, tmp_path)
    job.checkpoint_dir.mkdir()
    (job.checkpoint_dir / "checkpoint.pt").write_bytes(b"not a checkpoint")
    assert (
        f"ValueError: {job.checkpoint_dir / 'checkpoint.pt'} cannot be read, remove it to start"
        " again" in job.run().output
    )


def test_no_partial_checkpoint_is_left(trained: Trained) -> None:
    assert [path.name for path in trained.job.checkpoint_dir.iterdir()] == ["checkpoint.pt"]
