"""`shoal demo --gitops`: what it refuses, and the repository that it makes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.gitops_checkout import GitCheckout
from cli.main import shoal
from tests.e2e.conftest import ROOT


@pytest.mark.parametrize("more", [["staging"], ["--strategy", "horovod"], ["--parameter", "Epochs=1"]])
def test_it_takes_no_environment_strategy_or_parameter(more: list[str]) -> None:
    result = CliRunner().invoke(shoal, ["demo", "--gitops", *more])
    assert result.exit_code == 2
    assert "--gitops goes from dev to staging to prod" in result.output


def test_the_repository_is_clean_has_a_remote_and_asks_for_nothing_of_the_users(tmp_path: Path) -> None:
    made = GitCheckout.new(tmp_path / "git", ROOT, {"PATH": "/usr/bin:/bin", "GIT_DIR": "elsewhere"}, tmp_path / "emulator")
    assert made.git("status", "--porcelain") == ""
    assert made.git("ls-remote", "origin", "main").split()[0] == made.head()
    assert "release" not in (made.root / "environments" / "prod.yaml").read_text()
    assert json.loads((made.root / "cdk.json").read_text())["app"]
