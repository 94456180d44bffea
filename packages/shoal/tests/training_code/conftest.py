"""A small set of real digits, and one undisturbed training job that many tests use."""

from pathlib import Path

import pytest

from local_kit.runtime import Runtime, find_runtime
from tests.training_code.training import Job, Trained, write_subset

IMAGES = 2560
GLOBAL_BATCH = 256
STEPS = IMAGES // GLOBAL_BATCH


@pytest.fixture(scope="session")
def runtime() -> Runtime:
    """Return the Python environment that stands in for the training image."""
    return find_runtime()


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the first 2560 training and 1000 test digits, in folders train and test."""
    folder = tmp_path_factory.mktemp("mnist")
    write_subset(folder, train=IMAGES, test=1000)
    return folder


@pytest.fixture
def own(runtime: Runtime, dataset: Path, tmp_path: Path) -> Job:
    """Return a job of the test's own, which runs train.py for two epochs."""
    return Job(runtime, dataset, tmp_path)


@pytest.fixture(scope="session")
def trained(
    runtime: Runtime, dataset: Path, tmp_path_factory: pytest.TempPathFactory
) -> Trained[Job]:
    """Run two epochs on one rank, undisturbed."""
    job = Job(runtime, dataset, tmp_path_factory.mktemp("trained"))
    outcome = job.run()
    assert outcome.returncode == 0, outcome.output
    return Trained(job, outcome)
