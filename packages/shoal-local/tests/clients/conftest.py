"""An emulator for each client of SageMaker, started as a user does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from local_kit.sagemaker_account import Account
from shoal_local.testing import emulator


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with emulator(tmp_path_factory.mktemp("clients") / "state", "--accelerators", "2") as running:
        yield Account.at(running.account)
