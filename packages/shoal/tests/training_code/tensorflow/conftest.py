"""The TensorFlow runtime, and jobs that the others are compared with."""

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from local_kit.runtime import Runtime, find_runtime
from tests.training_code.tensorflow.job import OPTIONS, Job, run
from tests.training_code.training import Trained


@pytest.fixture(scope="session")
def tensorflow() -> Runtime:
    """Return the Python environment that stands in for the TensorFlow images."""
    return find_runtime("tensorflow")


@pytest.fixture
def job(tensorflow: Runtime, dataset: Path, tmp_path: Path) -> Job:
    """Return a job of the test's own."""
    return Job(tensorflow, dataset, tmp_path)


@pytest.fixture(scope="session")
def undisturbed(
    tensorflow: Runtime, dataset: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Trained[Job]]:
    """Return a function that runs two epochs of a synchronous strategy, once with each flags."""

    @functools.cache
    def run_once(strategy: str, *flags: str) -> Trained[Job]:
        job = Job(tensorflow, dataset, tmp_path_factory.mktemp(strategy), (*OPTIONS, *flags))
        outcome = run(job, strategy)
        assert outcome.returncode == 0, outcome.output
        return Trained(job, outcome)

    return run_once


@pytest.fixture(scope="session")
def alone(undisturbed: Callable[..., Trained[Job]]) -> Trained[Job]:
    """Run train.py for two epochs in one process."""
    return undisturbed("none")
