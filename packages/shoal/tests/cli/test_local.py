"""`shoal local up` while a real shoal-local runs already."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from shoal.cli.main import shoal
from shoal.errors import UsageError, WrongAccountError
from shoal.settings.loading.loader import load_environment
from shoal.verbs.workspace import Workspace
from tests.cli.trained import document_in
from tests.repository import link_checkout


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Return `shoal local up` of a checkout whose shoal-local is stopped at the end."""
    command = ("--root", str(link_checkout(tmp_path)), "local")
    run = partial(CliRunner().invoke, shoal, catch_exceptions=False)
    yield lambda *options: run([*command, "up", *options]).output
    run([*command, "down"])


def test_one_emulator_enforces_policies_and_plays_the_accounts_of_several_environments(
    up: Callable[..., str], tmp_path: Path
) -> None:
    output = up("dev", "staging", "prod", "--enforce-iam")
    assert "accounts 111122223333, 222233334444, 333344445555 in us-east-1" in output
    assert "in us-east-1, policies enforced" in output
    assert "for prod instead: export AWS_ACCESS_KEY_ID=AKIA333344445555ROOT" in output
    server = document_in(up("--json"))
    assert (server["is_new"], len(server["accounts"])) == (False, 3)
    words = ["--root", str(tmp_path), "doctor", "dev", "--local", "--json"]
    assert document_in(CliRunner().invoke(shoal, words).stdout)["findings"]
    workspace = Workspace(tmp_path, os.environ)
    for name in ("dev", "staging", "prod"):
        environment = load_environment(name, tmp_path)
        target = workspace.target_of(environment, local=True)
        assert target.client("sts").get_caller_identity()["Account"] == environment.account


def test_an_emulator_says_what_it_is_and_is_not_taken_for_another(
    up: Callable[..., str], tmp_path: Path
) -> None:
    output = up("dev", "staging", "--hosting-speed", "60")
    assert "policies enforced" not in output
    assert "deployments to endpoints 60 times as fast" in output
    assert "running already" in up()
    with pytest.raises(UsageError, match="runs without --enforce-iam; run `shoal local down`"):
        up("--enforce-iam")
    slower = (
        "runs with --hosting-speed 60; run `shoal local down`, then `shoal local up"
        " --hosting-speed 30`"
    )
    with pytest.raises(UsageError, match=slower):
        up("--hosting-speed", "30")
    with pytest.raises(
        UsageError,
        match=r"not what prod is for; run `shoal local down`, then `shoal local up dev prod`",
    ):
        up("dev", "prod")
    with pytest.raises(
        WrongAccountError,
        match=(
            r"plays accounts 111122223333, 222233334444 in us-east-1, environment prod is for"
            r" 333344445555"
        ),
    ):
        Workspace(tmp_path, os.environ).open("prod", local=True)
