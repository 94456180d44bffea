"""One emulator, and its port as bytes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from local.tests.bad_input.wire import ACCOUNT_ID, Wire
from shoal_local.testing import emulator


@pytest.fixture(scope="session")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """The emulator's port, for requests that no client of AWS would send."""
    with emulator(tmp_path_factory.mktemp("wire"), "--account", ACCOUNT_ID) as local:
        yield Wire(local.account.endpoint)
