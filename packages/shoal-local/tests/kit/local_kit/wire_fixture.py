"""One emulator in this process, so that a test can break it, and its port as bytes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from local_kit.wire import ACCOUNT_ID, Wire
from shoal_local.testing import LocalAccount, in_process


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """The emulator's port, for requests that no client of AWS would send."""
    with in_process(tmp_path_factory.mktemp("wire"), ACCOUNT_ID) as emulator:
        yield Wire(LocalAccount.of(emulator))
