"""One emulator for this folder's tests, and the runtime built once; both as a user would have them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.runtimes.build import build
from emulator.runtimes.catalog import runtimes
from emulator.server import Emulator, Options
from tests.emulator.sagemaker.account import ACCOUNT_ID, Account


@pytest.fixture(scope="session")
def runtime() -> Path:
    """The PyTorch runtime's interpreter, built where it is missing."""
    return build(runtimes()["pytorch"], None, print)


@pytest.fixture(scope="session")
def account(runtime: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    state_dir = tmp_path_factory.mktemp("emulator")
    emulator = Emulator(Options(state_dir, ACCOUNT_ID, "us-east-1", accelerators=2))
    emulator.start()
    yield Account.of(emulator, state_dir)
    emulator.close()
