"""One emulator for all tests of the control plane, started and stopped as a user does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from local_kit.control import Account, running


@pytest.fixture(scope="session")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with running(tmp_path_factory.mktemp("emulator")) as emulated:
        yield emulated
