"""The TensorFlow runtime, and one job of train.py that the others are compared with."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from local_kit.runtime import Outcome, Runtime, find_runtime, finish
from tests.training_code.tensorflow.job import OPTIONS, Job
from tests.training_code.tensorflow.strategies import (
    horovod,
    mirrored,
    multi_worker_mirrored,
    none,
    smddp,
)


@pytest.fixture(scope="session")
def tensorflow() -> Runtime:
    """Return the Python environment that stands in for the TensorFlow images."""
    return find_runtime("tensorflow")


@pytest.fixture
def job(tensorflow: Runtime, dataset: Path, tmp_path: Path) -> Job:
    """Return a job of the test's own."""
    return Job(tensorflow, dataset, tmp_path)


@dataclass(frozen=True)
class Trained:
    """A job that ended, with its outcome."""

    job: Job
    outcome: Outcome


START: dict[str, Callable[[Job], subprocess.Popen[str]]] = {
    "none": none,
    "smddp": smddp,
    "horovod": horovod,
}
RUN: dict[str, Callable[[Job], Outcome]] = {
    "none": lambda job: job.alone("train.py", *OPTIONS, "--model_dir", "s3://what-the-sdk-adds"),
    "smddp": lambda job: finish(smddp(job)),
    "horovod": lambda job: finish(horovod(job)),
    "mirrored": mirrored,
    "multi_worker_mirrored": multi_worker_mirrored,
}


@pytest.fixture(scope="session")
def undisturbed(
    tensorflow: Runtime, dataset: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Trained]:
    """Return a function that runs two epochs of a synchronous strategy, once."""

    @functools.cache
    def run(strategy: str) -> Trained:
        job = Job(tensorflow, dataset, tmp_path_factory.mktemp(strategy))
        outcome = RUN[strategy](job)
        assert outcome.returncode == 0, outcome.output
        return Trained(job, outcome)

    return run


@pytest.fixture(scope="session")
def alone(undisturbed: Callable[[str], Trained]) -> Trained:
    """Run train.py for two epochs in one process."""
    return undisturbed("none")


@pytest.fixture(params=["smddp", "horovod", "mirrored", "multi_worker_mirrored"])
def two_replicas(request: pytest.FixtureRequest, undisturbed: Callable[[str], Trained]) -> Trained:
    """Run two epochs of a strategy on two replicas."""
    return undisturbed(request.param)
