"""A small text, and one undisturbed job on one rank that many tests compare with."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from dev.bench import environments
from local_kit.runtime import Runtime, find_runtime
from tests.training_code.language.jobs import SMALL, Compute, Job, Result, run, write_text


@pytest.fixture(scope="session")
def runtime() -> Runtime:
    """Return the Python that stands in for the training image, with more imported than torch."""
    return replace(find_runtime(), framework="torch._dynamo")


@pytest.fixture(scope="session")
def peers() -> Runtime:
    """Return the Python that has transformers, for nightly tests: `make test-all` installs it."""
    return Runtime(environments.peers())


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a channel with a small text to learn from."""
    return write_text(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="session")
def compute(runtime: Runtime, text: Path) -> Compute:
    """Return a function that runs jobs, and returns a result for each."""
    return partial(run, runtime, text)


@pytest.fixture(scope="session")
def alone(compute: Compute, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Run four steps on one rank."""
    (result,) = compute(Job(tmp_path_factory.mktemp("alone"), SMALL))
    assert result.status == 0, result.output
    return result
