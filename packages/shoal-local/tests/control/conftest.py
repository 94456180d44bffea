"""One emulator for all tests of the control plane, started and stopped as a user does; one
evaluator, whose Node process starts once.
"""

from collections.abc import Iterator

import pytest

from local_kit.control import Account, running
from shoal_local.control.authorization.evaluator import Evaluator


@pytest.fixture(scope="session")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with running(tmp_path_factory.mktemp("emulator")) as emulated:
        yield emulated


@pytest.fixture(scope="session")
def evaluator() -> Iterator[Evaluator]:
    with Evaluator() as started:
        yield started
