"""The runtime, and one run of each probe script for all tests that read it."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from local_kit.runtime import ROOT, Runtime, find_runtime

SOURCE = ROOT / "packages" / "stand-ins" / "smddp" / "src"
SCRIPTS = Path(__file__).parents[1] / "scripts"

# The launcher module needs no torch: its tests import it from the checkout.
sys.path.append(str(SOURCE))

# What the TensorFlow images of the time had; Keras 3 is TensorFlow's default since 2.16.
LEGACY_KERAS = {"TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
Probe = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def runtime() -> Runtime:
    """Return the Python environment that stands in for the training image."""
    return find_runtime()


@pytest.fixture(scope="session")
def probe(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Probe:
    """Run a script of `scripts/` as ranks.

    Return the JSON object that its rank 0 writes to the path it is given.
    """

    def run(
        script: str, launcher: str = "mpirun", ranks: int = 2, **environment: str
    ) -> dict[str, Any]:
        folder = tmp_path_factory.mktemp(script)
        own = find_runtime("tensorflow") if "tensorflow" in script else runtime
        command = getattr(own, launcher)(ranks, SCRIPTS / f"{script}.py", folder / "answer.json")
        return own.answer(command, folder, LEGACY_KERAS | environment)

    return run
