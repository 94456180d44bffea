"""The runtime, and one run of each probe script for all tests that ask about it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.smddp_local.runtime import ROOT, Runtime, find_runtime

SOURCE = ROOT / "smddp_local" / "src"
SCRIPTS = Path(__file__).with_name("scripts")

# The launcher module needs no torch: its tests import it from the checkout.
sys.path.append(str(SOURCE))

Probe = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def runtime() -> Runtime:
    """The Python environment that stands in for the training image."""
    return find_runtime()


@pytest.fixture(scope="session")
def probe(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Probe:
    """Run a script of `scripts/` on two ranks and return the JSON object that its rank 0 writes to the path it is given."""

    def run(script: str, launcher: str, **environment: str) -> dict[str, Any]:
        folder = tmp_path_factory.mktemp(script)
        command = getattr(runtime, launcher)(2, SCRIPTS / f"{script}.py", folder / "answer.json")
        outcome = runtime.run(command, folder, environment)
        assert outcome.returncode == 0, outcome.output
        answer: dict[str, Any] = json.loads((folder / "answer.json").read_text())
        return answer | {"output": outcome.output}

    return run
