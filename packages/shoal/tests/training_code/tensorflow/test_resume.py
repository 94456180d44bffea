"""A job that is killed continues from its last checkpoint: to the bit where steps are synchronous,
else at the right step.
"""

import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from local_kit.runtime import Outcome, Runtime, finish, finish_after
from tests.training_code.conftest import STEPS
from tests.training_code.tensorflow.job import Job, parameter_server, run, start
from tests.training_code.training import Trained, children, losses, position_of, stop_at

pytestmark = pytest.mark.nightly
RANKS = ("none", "smddp", "horovod")
LAST_STEP = 2 * STEPS
STOPPED = 128 + signal.SIGTERM


def losses_after(position: tuple[int, int], outcome: Outcome) -> dict[tuple[int, int], float]:
    return {at: loss for at, loss in losses(outcome.output).items() if at > position}


@pytest.fixture(scope="module")
def killed(tensorflow: Runtime, dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the checkpoint that train.py left when it was killed in its first epoch."""
    job = Job(tensorflow, dataset, tmp_path_factory.mktemp("killed"))
    finish_after(start(job, "none")[0], f"epoch=1 step=5/{STEPS}", signal.SIGKILL)
    assert not job.model_dir.exists()
    return job.checkpoint_dir


@pytest.fixture
def resuming(job: Job, killed: Path) -> Job:
    """Return a job that has that checkpoint."""
    shutil.copytree(killed, job.checkpoint_dir)
    return job


def assert_resumes_to_the_bit(job: Job, strategy: str, expected: Trained[Job]) -> tuple[int, int]:
    """Start a job again, and return the position at which it goes on."""
    resumed = finish(start(job, strategy)[0])
    position = position_of(resumed.output)
    assert losses(resumed.output) == losses_after(position, expected.outcome) != {}
    assert job.weights == expected.job.weights
    return position


@pytest.mark.parametrize("strategy", RANKS)
def test_a_killed_and_resumed_job_equals_an_undisturbed_one_to_the_bit(
    job: Job, undisturbed: Callable[..., Trained[Job]], strategy: str
) -> None:
    finish_after(start(job, strategy)[0], f"epoch=1 step=5/{STEPS}", signal.SIGKILL)
    assert_resumes_to_the_bit(job, strategy, undisturbed(strategy))


def stop(chief: subprocess.Popen[str], targets: Callable[[], Sequence[int]]) -> Outcome:
    """Stop a job as SageMaker does, when the chief has printed its fourth step."""
    return stop_at(chief, f"epoch=1 step=4/{STEPS}", targets)


def is_stopped(job: Job, outcome: Outcome) -> bool:
    (checkpoint,) = job.checkpoint_dir.glob("*.index")
    done = int(checkpoint.stem.removeprefix("ckpt-"))
    return (
        outcome.returncode == STOPPED
        and "stopped on SIGTERM at epoch=" in outcome.output
        and 4 <= done < LAST_STEP
    )


# Each of mpirun's ranks gets the signal, not mpirun, which would kill them about a second later.
@pytest.mark.parametrize("strategy", RANKS)
def test_sigterm_ends_the_job_with_a_checkpoint_from_which_it_resumes_to_the_bit(
    job: Job, undisturbed: Callable[..., Trained[Job]], strategy: str
) -> None:
    (process,) = start(job, strategy)
    stopped = stop(process, lambda: [process.pid] if strategy == "none" else children(process))
    assert is_stopped(job, stopped), stopped
    assert not job.model_dir.exists()
    # killed, it would have continued at step 3
    assert assert_resumes_to_the_bit(job, strategy, undisturbed(strategy)) >= (1, 4)


def test_sigterm_ends_two_workers_with_a_checkpoint_and_without_a_model(job: Job) -> None:
    chief, other = start(job, "multi_worker_mirrored")
    stopped = stop(chief, lambda: [other.pid, chief.pid])
    assert is_stopped(job, stopped), stopped
    assert finish(other).returncode == STOPPED
    assert not job.model_dir.exists()


def test_sigterm_ends_parameter_servers_after_their_chief_has_written_a_checkpoint(
    job: Job,
) -> None:
    with parameter_server(job) as (chief, others):
        stopped = stop(chief, lambda: [*(each.pid for each in others), chief.pid])
        assert is_stopped(job, stopped), stopped
        assert [finish(each).returncode for each in others] == [0, 0, 0]
    assert not job.model_dir.exists()


@pytest.mark.parametrize("strategy", ["mirrored", "multi_worker_mirrored"])
def test_replicas_continue_where_one_process_was_killed(
    resuming: Job, alone: Trained[Job], strategy: str
) -> None:
    outcome = run(resuming, strategy)
    expected = losses_after(position_of(outcome.output), alone.outcome)
    assert losses(outcome.output) == pytest.approx(expected, rel=2e-3, abs=2e-4)
    assert (resuming.checkpoint_dir / f"ckpt-{LAST_STEP}.index").is_file()


def test_a_parameter_server_job_continues_at_the_step_after_the_checkpoint(resuming: Job) -> None:
    with parameter_server(resuming) as (chief, _):
        outcome = finish(chief)
    epoch, step = position_of(outcome.output)
    assert min(losses(outcome.output)) == (epoch, step + 1)
    (checkpoint,) = resuming.checkpoint_dir.glob("*.index")
    assert checkpoint.name == f"ckpt-{LAST_STEP}.index"


@pytest.mark.parametrize(
    ("files", "content", "name"),
    [
        ("*.data-*", b"cut off", r"ckpt-\d+"),
        ("checkpoint", b'model_checkpoint_path: "ckpt-99"', "checkpoint"),
        ("checkpoint", b"no such text", "checkpoint"),
        ("checkpoint", b"", "checkpoint"),
    ],
)
def test_a_damaged_checkpoint_is_named(
    resuming: Job, files: str, content: bytes, name: str
) -> None:
    for path in resuming.checkpoint_dir.glob(files):
        path.write_bytes(content)
    last = resuming.alone("train.py").output.splitlines()[-1]
    expected = rf"ValueError: \S+/checkpoints/{name} cannot be read, empty its folder"
    assert re.match(expected, last)
