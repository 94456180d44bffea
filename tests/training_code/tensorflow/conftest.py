"""The TensorFlow runtime, and one job of train.py that the others are compared with."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.smddp_local.runtime import ROOT, Outcome, Runtime
from tests.training_code.tensorflow.job import Job


@pytest.fixture(scope="session")
def tensorflow() -> Runtime:
    """The Python environment that stands in for the TensorFlow images; built if nobody did."""
    named = os.environ.get("SHOAL_TENSORFLOW_PYTHON")
    if named:
        return Runtime(Path(named))
    emulator = [sys.executable, "-m", "emulator", "runtime"]
    subprocess.run([*emulator, "build", "tensorflow"], cwd=ROOT, check=True, capture_output=True)
    asked = subprocess.run([*emulator, "python", "tensorflow"], cwd=ROOT, check=True, capture_output=True, text=True)
    return Runtime(Path(asked.stdout.strip()))


@dataclass(frozen=True)
class Trained:
    """A job that ended, and how."""

    job: Job
    outcome: Outcome


@pytest.fixture(scope="session")
def alone(tensorflow: Runtime, dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """train.py: two epochs in one process."""
    job = Job(tensorflow, dataset, tmp_path_factory.mktemp("alone"))
    outcome = job.alone("train.py")
    assert outcome.returncode == 0, outcome.output
    return Trained(job, outcome)
