"""The templates of one throw-away environment, one protected one, and one with everything that is
optional; and the evaluator.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.settings.loading.loader import load_environment
from shoal_local.control.authorization.evaluator import Evaluator
from tests.identity.everything import everything
from tests.identity.synth import synthesised
from tests.identity.templates import Templates
from tests.repository import ROOT


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Templates]:
    """Templates by their environment's name."""
    environments = {name: load_environment(name, ROOT) for name in ("dev", "prod")} | {
        "everything": everything()
    }
    return synthesised(environments, tmp_path_factory.mktemp("identity"))


@pytest.fixture(scope="session")
def dev(templates: dict[str, Templates]) -> Templates:
    return templates["dev"]


@pytest.fixture(scope="session")
def evaluator() -> Iterator[Evaluator]:
    with Evaluator() as running:
        yield running
