"""`shoal local up` while a real shoal-local runs already."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from shoal.cli.main import shoal
from shoal.errors import UsageError, WrongAccountError
from shoal.settings.loading.loader import load_environment
from shoal.verbs.workspace import Workspace
from tests.repository import link_checkout


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """Return a checkout whose shoal-local is stopped at the end."""
    yield link_checkout(tmp_path)
    CliRunner().invoke(shoal, ["--root", str(tmp_path), "local", "down"])


def up(root: Path, *options: str) -> str:
    return (
        CliRunner()
        .invoke(shoal, ["--root", str(root), "local", "up", *options], catch_exceptions=False)
        .output
    )


def test_an_emulator_that_enforces_policies_says_so(root: Path) -> None:
    assert "in us-east-1, policies enforced" in up(root, "--enforce-iam")
    assert "running already: " in up(root)


def test_an_emulator_that_enforces_nothing_is_not_taken_for_one_that_does(root: Path) -> None:
    assert "policies enforced" not in up(root)
    with pytest.raises(UsageError, match="runs without --enforce-iam; run `shoal local down`"):
        up(root, "--enforce-iam")


def test_an_emulator_says_how_fast_deployments_are_and_takes_no_other_speed(root: Path) -> None:
    assert "deployments to endpoints 60 times as fast" in up(root, "--hosting-speed", "60")
    assert "running already" in up(root)
    with pytest.raises(
        UsageError,
        match=(
            r"runs with --hosting-speed 60; run `shoal local down`, then `shoal local up"
            r" --hosting-speed 30`"
        ),
    ):
        up(root, "--hosting-speed", "30")


def test_one_emulator_plays_the_accounts_of_several_environments(root: Path) -> None:
    output = up(root, "dev", "staging", "prod")
    assert "accounts 111122223333, 222233334444, 333344445555 in us-east-1" in output
    assert "for prod instead: export AWS_ACCESS_KEY_ID=AKIA333344445555ROOT" in output
    workspace = Workspace(root, os.environ)
    for name in ("dev", "staging", "prod"):
        environment = load_environment(name, root)
        target = workspace.target_of(environment, local=True)
        assert target.client("sts").get_caller_identity()["Account"] == environment.account


def test_an_environment_whose_account_is_not_played_says_so(root: Path) -> None:
    up(root, "dev", "staging")
    with pytest.raises(
        WrongAccountError,
        match=(
            r"plays accounts 111122223333, 222233334444 in us-east-1, environment prod is for"
            r" 333344445555"
        ),
    ):
        Workspace(root, os.environ).open("prod", local=True)
    with pytest.raises(
        UsageError,
        match=r"not what prod is for; run `shoal local down`, then `shoal local up dev prod`",
    ):
        up(root, "dev", "prod")
