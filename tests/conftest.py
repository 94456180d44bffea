"""What the tests of a team's repository share: its root, and its templates."""

from pathlib import Path
from typing import Any

import pytest

from shoal.testing import templates_of  # first: it chooses the CDK's Node.js
from stacks.delivery import DeliveryStack
from stacks.platform import EnvironmentStage

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return each stack's template by its name; cdk-nag and all other gates pass."""
    folder = tmp_path_factory.mktemp("cdk.out")
    return templates_of(ROOT, folder, stage=EnvironmentStage, delivery=DeliveryStack)
