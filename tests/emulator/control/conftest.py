"""One emulator for all tests of the control plane, started and stopped as a user would."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.emulator.control.account import Account, start


@pytest.fixture(scope="session")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    state_dir = tmp_path_factory.mktemp("emulator")
    process, ready = start(state_dir)
    yield Account(ready["endpoint"], state_dir)
    process.terminate()
    assert process.wait(20) == 0
