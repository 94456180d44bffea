"""`shoal demo --gitops` interrupted, and what it refuses; its whole story is in
test_gitops_releases.py.
"""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from local.tests.control.account import eventually
from shoal.cli.main import shoal
from shoal.demo.gitops.checkout import GitCheckout
from shoal.verbs.processes import mentioning
from tests.end_to_end.conftest import Checkout, Finished
from tests.repository import ROOT

_TIMEOUT_S = 2400
"""Some five minutes on two idle cores; half an hour was seen on two busy ones."""
pytestmark = pytest.mark.timeout(_TIMEOUT_S + 300)
RELEASES = ("staging", "prod")


def ended(process: subprocess.Popen[str]) -> Finished:
    """How it ended; one that does not is told to, and cleans up."""
    try:
        output, _ = process.communicate(timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.terminate()
        output, _ = process.communicate()
    return Finished(process.returncode, output)


@pytest.mark.nightly
def test_ctrl_c_during_a_deployment_removes_what_was_begun(checkout: Checkout) -> None:
    """While stacks are being made.

    Not in the middle of a canary: that is three minutes further on, in a run of its own.
    """
    output = checkout.root / "interrupted-gitops"
    process = checkout.start("demo", "--gitops", "--output", str(output))
    log = output / "logs" / "01-deploy-dev.log"
    assert eventually(lambda: log.is_file() and "deploy dev to account" in log.read_text(), 300.0)
    process.send_signal(signal.SIGINT)
    interrupted = ended(process)
    assert interrupted.exit_code == 130, interrupted.output
    summary = checkout.summary("interrupted-gitops")
    assert (summary["status"], summary["left_behind"], summary["processes_left"]) == (
        "Interrupted",
        [],
        [],
    )
    assert mentioning(str(checkout.root)) == ()


@pytest.mark.parametrize(
    "more", [["staging"], ["--strategy", "horovod"], ["--parameter", "Epochs=1"]]
)
def test_it_takes_no_environment_strategy_or_parameter(more: list[str]) -> None:
    result = CliRunner().invoke(shoal, ["demo", "--gitops", *more])
    assert result.exit_code == 2
    assert "--gitops goes from dev to staging to prod" in result.output


def test_the_repository_is_clean_has_a_remote_and_asks_for_nothing_of_the_users(
    tmp_path: Path,
) -> None:
    made = GitCheckout.new(
        tmp_path / "git",
        ROOT,
        {"PATH": "/usr/bin:/bin", "GIT_DIR": "elsewhere"},
        tmp_path / "emulator",
    )
    assert made.git("status", "--porcelain") == ""
    assert made.git("ls-remote", "origin", "main").split()[0] == made.head()
    assert "release" not in (made.root / "environments" / "prod.yaml").read_text()
    assert json.loads((made.root / "cdk.json").read_text())["app"]
