"""`shoal local up` beside an emulator that runs already, with the real one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.main import shoal
from lifecycle.errors import UsageError
from tests.lifecycle.conftest import ROOT


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A checkout of its own, without an emulator at the end."""
    for name in ("emulator", "environments", "node_modules"):
        (tmp_path / name).symlink_to(ROOT / name)
    yield tmp_path
    CliRunner().invoke(shoal, ["--root", str(tmp_path), "local", "down"])


def up(root: Path, *options: str) -> str:
    return CliRunner().invoke(shoal, ["--root", str(root), "local", "up", *options], catch_exceptions=False).output


def test_an_emulator_that_enforces_policies_says_so(root: Path) -> None:
    assert "us-east-1, policies enforced" in up(root, "--enforce-iam")
    assert "running already: " in up(root)


def test_an_emulator_that_enforces_nothing_is_not_taken_for_one_that_does(root: Path) -> None:
    assert "policies enforced" not in up(root)
    with pytest.raises(UsageError, match="runs without --enforce-iam; run `shoal local down`"):
        up(root, "--enforce-iam")


def test_an_emulator_says_how_fast_deployments_are_and_takes_no_other_speed(root: Path) -> None:
    assert "deployments to endpoints 60 times as fast" in up(root, "--hosting-speed", "60")
    assert "running already" in up(root)
    with pytest.raises(UsageError, match=r"runs with --hosting-speed 60; run `shoal local down`, then `shoal local up --hosting-speed 30`"):
        up(root, "--hosting-speed", "30")
