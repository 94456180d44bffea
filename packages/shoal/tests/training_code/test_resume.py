"""A job that is killed or stopped continues where it was, to the bit; a job that cannot continue
says why.
"""

from __future__ import annotations

import functools
import signal
from collections.abc import Callable
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


SMDDP, HOROVOD = ("mpirun", "train.py"), ("mpi", "train_horovod.py")


@pytest.fixture(scope="module")
def undisturbed(
    runtime: Runtime, dataset: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[int, str, str], tuple[Job, str]]:
    """Return a function that runs a job to which nothing happens, once, and returns its output."""

    @functools.cache
    def run(ranks: int, launcher: str, script: str) -> tuple[Job, str]:
        folder = tmp_path_factory.mktemp("undisturbed")
        job = Job(runtime, dataset, folder, launcher, ranks, OPTIONS, script=script)
        outcome = job.run()
        assert outcome.returncode == 0, outcome.output
        return job, outcome.output

    return run


@pytest.mark.parametrize(
    ("ranks", "launched"),
    [
        pytest.param(1, SMDDP, marks=pytest.mark.nightly),
        (2, SMDDP),
        pytest.param(2, HOROVOD, marks=pytest.mark.nightly),
    ],
)
def test_a_killed_and_resumed_job_equals_an_undisturbed_one_to_the_bit(
    undisturbed: Callable[[int, str, str], tuple[Job, str]],
    tmp_path: Path,
    ranks: int,
    launched: tuple[str, str],
) -> None:
    other, output = undisturbed(ranks, *launched)
    job = replace(other, folder=tmp_path)
    job.run_until(f"epoch=2 step=5/{STEPS}", signal.SIGKILL)
    assert not job.model_dir.exists()
    resumed = job.run().output
    position = position_of(resumed)
    assert (2, 3) <= position < (12, STEPS)
    expected = {step: loss for step, loss in losses(output).items() if step > position}
    assert losses(resumed) == expected
    assert job.weights == other.weights


@pytest.mark.parametrize(
    ("ranks", "launched", "status"),
    [
        (1, ("alone", "train.py"), STOPPED),
        # torchrun has a status of its own
        pytest.param(2, ("torchrun", "train.py"), None, marks=pytest.mark.nightly),
        (2, SMDDP, None),
        pytest.param(2, HOROVOD, STOPPED, marks=pytest.mark.nightly),
    ],
)
def test_sigterm_ends_the_job_with_a_checkpoint_and_without_a_model(
    own: Job,
    ranks: int,
    launched: tuple[str, str],
    status: int | None,
) -> None:
    """Each rank gets the signal, not mpirun, which would kill them about a second later."""
    launcher, script = launched
    job = replace(own, launcher=launcher, ranks=ranks, options=ONE_LONG_EPOCH, script=script)
    if launcher.startswith("mpi"):
        process = job.start()
        outcome = stop_at(process, "step=4/", lambda: children(process))
    else:
        outcome = job.run_until("step=4/", signal.SIGTERM)
    assert "stopped on SIGTERM at epoch=1 step=" in outcome.output
    assert (job.checkpoint_dir / "checkpoint.pt").exists()
    assert not job.model_dir.exists()
    assert outcome.returncode == status or (status is None and outcome.returncode != 0)


@pytest.mark.nightly
@pytest.mark.parametrize("launched", [SMDDP, HOROVOD])
def test_a_job_that_was_stopped_by_sigterm_resumes_to_the_bits_of_an_undisturbed_one(
    undisturbed: Callable[[int, str, str], tuple[Job, str]],
    tmp_path: Path,
    launched: tuple[str, str],
) -> None:
    other, _ = undisturbed(2, *launched)
    job = replace(other, folder=tmp_path)
    process = job.start()
    stop_at(process, f"epoch=2 step=4/{STEPS}", lambda: children(process))
    assert not job.model_dir.exists()
    # a job that was killed would continue at step 3
    assert (2, 4) <= position_of(job.run().output) < (12, STEPS)
    assert job.weights == other.weights


@pytest.mark.nightly
@pytest.mark.parametrize("precision", [pytest.param("fp32", marks=pytest.mark.nightly), "bf16"])
def test_a_job_that_chooses_its_precision_keeps_that_of_its_checkpoint(
    own: Job, precision: str
) -> None:
    common = ("--epochs", "12", "--log-every", "1", "--checkpoint-every", "3")
    job = replace(own, options=(*common, "--precision", precision))
    job.run_until("epoch=1 step=5/", signal.SIGKILL)
    outcome = replace(job, options=common).run()
    assert f"precision={precision}, as in the checkpoint" in outcome.output
    assert position_of(outcome.output) >= (1, 3)


def test_a_damaged_checkpoint_is_named(own: Job) -> None:
    own.checkpoint_dir.mkdir()
    file = own.checkpoint_dir / "checkpoint.pt"
    file.write_bytes(b"not a checkpoint")
    assert f"ValueError: {file} cannot be read, remove it to start again" in own.run().output


def test_no_partial_checkpoint_is_left(trained: Trained) -> None:
    assert [path.name for path in trained.job.checkpoint_dir.iterdir()] == ["checkpoint.pt"]
