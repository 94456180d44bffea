"""A user's mistake is one clear error, on every number of ranks, and a lost rank ends the job
instead of hanging it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from local_kit.runtime import finish
from tests.training_code.training import Job, children


@dataclass(frozen=True)
class Mistake:
    """A job that ends with one clear error."""

    message: str
    options: Sequence[str] = Job.options
    environment: dict[str, str] = field(default_factory=dict)
    ranks: int = 1


MISTAKES = (
    Mistake("train.py: error: unrecognized arguments: --batchsize 8", ("--batchsize", "8")),
    Mistake(
        "ValueError: global batch size 255 is not divisible by the world size 2",
        ("--batch-size", "255"),
        ranks=2,
    ),
    Mistake(
        "nowhere/train-images-idx3-ubyte does not exist; the folder holds nothing",
        environment={"SM_CHANNEL_TRAIN": "/nowhere"},
    ),
    Mistake(
        "ValueError: mpirun started this process without smddprun",
        environment={"OMPI_COMM_WORLD_SIZE": "2"},
    ),
    Mistake(
        "ValueError: the launcher gave this process a WORLD_SIZE but no LOCAL_RANK",
        environment={"WORLD_SIZE": "2", "RANK": "1"},
    ),
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.message)
def test_a_mistake_is_one_clear_error(own: Job, mistake: Mistake) -> None:
    job = replace(own, launcher="mpirun", ranks=mistake.ranks)
    outcome = replace(job, options=mistake.options, environment=mistake.environment).run()
    assert outcome.returncode != 0
    lines = outcome.output.splitlines()
    assert mistake.message in (lines[-1] if mistake.ranks == 1 else outcome.output)


def test_a_killed_rank_fails_the_job(own: Job) -> None:
    options = ("--epochs", "50", "--log-every", "1")
    job = replace(own, launcher="mpirun", ranks=2, options=options)
    process = job.start()
    assert process.stdout
    next(line for line in process.stdout if "step=3/" in line)
    os.kill(children(process)[-1], signal.SIGKILL)
    assert finish(process).returncode != 0
    assert not job.model_dir.exists()
