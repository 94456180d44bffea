"""One evaluator for all tests of authorization: its Node process starts once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal_local.control.authorization.evaluator import Evaluator


@pytest.fixture(scope="session")
def evaluator() -> Iterator[Evaluator]:
    with Evaluator() as started:
        yield started
