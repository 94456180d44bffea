"""`shoal demo --gitops`, once, with the policies of every role applied: three releases from a
commit to prod in three accounts, what is said of them, and what is left; once more interrupted; and
what it refuses.
"""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from local.tests.control.account import eventually
from shoal.cli.main import shoal
from shoal.demo.gitops.checkout import GitCheckout
from shoal.verbs.processes import mentioning
from tests.end_to_end.conftest import ROOT, Checkout, Finished

_TIMEOUT_S = 2400
"""Some five minutes on two idle cores; half an hour was seen on two busy ones."""
pytestmark = pytest.mark.timeout(_TIMEOUT_S + 300)
RELEASES = ("staging", "prod")


@pytest.fixture(scope="module")
def gitops(checkout: Checkout) -> Finished:
    return ended(checkout.start("demo", "--gitops", "--enforce-iam"))


def ended(process: subprocess.Popen[str]) -> Finished:
    """How it ended; one that does not is told to, and cleans up."""
    try:
        output, _ = process.communicate(timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.terminate()
        output, _ = process.communicate()
    return Finished(process.returncode, output)


@pytest.fixture
def summary(gitops: Finished, checkout: Checkout) -> dict[str, Any]:
    assert gitops.exit_code == 0, gitops.output
    return checkout.summary("demo-out/gitops")


@pytest.fixture
def transcript(summary: dict[str, Any], checkout: Checkout) -> str:
    return (checkout.root / "demo-out" / "gitops" / "transcript.txt").read_text(encoding="utf-8")


def test_its_last_line_says_what_ran_and_that_nothing_is_left(gitops: Finished) -> None:
    assert gitops.exit_code == 0, gitops.output
    assert (
        gitops.output.strip().splitlines()[-1]
        == "Succeeded: 9 commits, 3 releases promoted, 3 served in staging, 2 served in prod, 1"
        " rolled back, 1 changed by hand and refused, 3 accounts; left behind in accounts,"
        " processes, ports and files: nothing"
    )


def test_each_release_has_weights_of_its_own_and_is_the_same_in_staging_and_prod(
    summary: dict[str, Any],
) -> None:
    by_environment = {
        name: [each for each in summary["promoted"] if each["environment"] == name]
        for name in RELEASES
    }
    weights = {
        name: [each["weights_sha256"] for each in promoted]
        for name, promoted in by_environment.items()
    }
    assert len(set(weights["staging"])) == 3
    assert weights["staging"] == weights["prod"]
    assert [each["model_package_arn"].rpartition("/")[2] for each in by_environment["prod"]] == [
        "1",
        "2",
        "3",
    ]


def test_both_releases_answered_while_the_second_was_rolled_out(summary: dict[str, Any]) -> None:
    canary = summary["canary"]
    assert canary["old_weights"] != canary["new_weights"]
    assert canary["old_answers"] > 0
    assert canary["new_answers"] > 0
    assert canary["side_by_side"] is True


def test_the_broken_release_failed_requests_and_was_rolled_back_by_alarms(
    summary: dict[str, Any],
) -> None:
    rollback = summary["rollback"]
    assert "was rolled back. Alarm in state ALARM" in rollback["reason"]
    assert rollback["failed_requests"] > 0
    assert rollback["broken_answers"] > 0
    assert rollback["serving_weights"] == summary["canary"]["new_weights"]
    assert rollback["broken_weights"] == summary["promoted"][-1]["weights_sha256"]


def test_after_the_rollback_and_after_the_revert_the_second_release_answers(
    summary: dict[str, Any],
) -> None:
    first, second, _ = (
        each["weights_sha256"] for each in summary["promoted"] if each["environment"] == "prod"
    )
    assert [
        each["weights_sha256"] for each in summary["served"] if each["environment"] == "prod"
    ] == [first, second, second, second]


def test_git_has_the_mistake_a_merge_for_each_release_and_environment_and_a_revert(
    summary: dict[str, Any],
) -> None:
    assert len(set(summary["accounts"].values())) == 3
    merges = [
        [f"merge promote/{name}/shoal-mnist-dev-{number}" for name in RELEASES]
        for number in (1, 2, 3)
    ]
    last = summary["commits"][-2]["id"][:12]
    done = [
        "begin",
        *merges[0],
        *merges[1],
        "commit -m 'Keep every answer'",
        *merges[2],
        f"revert --no-edit --mainline 1 {last}",
    ]
    assert [each["what"] for each in summary["commits"]] == done
    assert len({each["id"] for each in summary["commits"]}) == len(done)


def test_an_archive_that_was_changed_by_hand_is_refused_although_it_was_approved(
    summary: dict[str, Any], transcript: str
) -> None:
    mistake = next(each["id"] for each in summary["commits"] if "Keep every answer" in each["what"])
    refused = summary["by_hand"]["refused"]
    assert (
        f"code/inference.py is not training_code/pytorch/inference.py of the commit {mistake}"
        in refused
    )
    assert f"approved: {summary['by_hand']['model_package_arn']}" in transcript


def test_what_git_says_is_what_is_live_after_the_revert_and_the_old_failure_is_called_old(
    summary: dict[str, Any], transcript: str
) -> None:
    assert summary["without_drift"] == ["prod"]
    drift = (
        transcript.partition("$ shoal drift prod --local\n")[2].partition("\n\n")[0].splitlines()
    )
    (endpoint,) = (line for line in drift if line.startswith("ok      endpoint shoal-mnist-prod"))
    assert (
        ": as pinned; SageMaker still tells why an earlier deployment failed: The deployment of "
        in endpoint
    )
    assert (
        "ok      weights shoal-mnist-prod: the container says weights "
        + summary["canary"]["new_weights"]
        in drift
    )


def test_the_policies_of_roles_were_applied_and_roles_of_each_account_acted(
    summary: dict[str, Any], checkout: Checkout
) -> None:
    log = checkout.root / "demo-out" / "gitops" / "logs" / "requests.jsonl"
    callers = {
        json.loads(line)["caller"].split(":", 4)[4]
        for line in log.read_text(encoding="utf-8").splitlines()
    }
    acted = {
        name
        for name in summary["accounts"]
        if any(f":assumed-role/shoal-mnist-{name}-us-east-1-" in caller for caller in callers)
    }
    assert (summary["enforces_iam"], acted) == (True, {"dev", "staging", "prod"})


def test_the_version_that_is_pinned_was_let_read_before_each_deployment_that_needed_it(
    transcript: str,
) -> None:
    shared = [
        line.partition("; ")[2]
        for line in transcript.splitlines()
        if line.startswith("deployed: stack shoal-mnist-dev-data")
    ]
    assert len(shared) == 6
    assert shared[0].endswith(
        "prod (333344445555) reads nothing; staging (222233334444) reads shoal-mnist-dev/1"
    )
    three = "shoal-mnist-dev/3, shoal-mnist-dev/2, shoal-mnist-dev/1"
    assert shared[-1] == f"prod (333344445555) reads {three}; staging (222233334444) reads {three}"


def test_it_leaves_no_process_port_or_folder(gitops: Finished, checkout: Checkout) -> None:
    assert mentioning(str(checkout.root)) == ()
    assert not (checkout.root / ".shoal" / "gitops").exists()
    assert list((checkout.root / "tmp").iterdir()) == []


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
