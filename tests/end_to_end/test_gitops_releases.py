"""`shoal demo --gitops`, once, with the policies of every role applied: three releases from a
commit to prod in three accounts, what is said of them, and what is left.

Nightly: the parts of the story are tested each by itself in tests/cli, tests/functions and
local/tests/sagemaker.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from shoal.verbs.processes import mentioning
from tests.end_to_end.conftest import Checkout, Finished

_TIMEOUT_S = 2400
"""Some five minutes on two idle cores; half an hour was seen on two busy ones."""
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(_TIMEOUT_S + 300)]
RELEASES = ("staging", "prod")


def ended(process: subprocess.Popen[str]) -> Finished:
    """How it ended; one that does not is told to, and cleans up."""
    try:
        output, _ = process.communicate(timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.terminate()
        output, _ = process.communicate()
    return Finished(process.returncode, output)


@pytest.fixture(scope="module")
def gitops(checkout: Checkout) -> Finished:
    return ended(checkout.start("demo", "--gitops", "--enforce-iam"))


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
        name: [each["content_sha256"] for each in promoted]
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
    assert canary["old_model"] != canary["new_model"]
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
    assert rollback["serving_model"] == summary["canary"]["new_model"]
    assert rollback["broken_model"] == summary["promoted"][-1]["content_sha256"]


def test_after_the_rollback_and_after_the_revert_the_second_release_answers(
    summary: dict[str, Any],
) -> None:
    first, second, _ = (
        each["content_sha256"] for each in summary["promoted"] if each["environment"] == "prod"
    )
    assert [
        each["content_sha256"] for each in summary["served"] if each["environment"] == "prod"
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
    assert "hash mismatch: the sha256 of" in summary["by_hand"]["refused"]
    assert f"approved: {summary['by_hand']['model_package_arn']}" in transcript


def test_what_git_says_is_what_is_live_after_the_revert_and_the_old_failure_is_called_old(
    summary: dict[str, Any], transcript: str
) -> None:
    assert summary["without_drift"] == ["prod"]
    command = "$ shoal release status prod --local --invoke\n"
    lines = transcript.partition(command)[2].partition("\n\n")[0].splitlines()
    (live,) = (line for line in lines if line.startswith("  ok      live: shoal-mnist-prod"))
    assert (
        "; as pinned; SageMaker still tells why an earlier deployment failed: The deployment of "
        in live
    )
    said = "answers say content " + summary["canary"]["new_model"]
    assert any(line.startswith("  ok ") and line.endswith(said) for line in lines)


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


def test_each_environment_serves_from_its_own_bucket_and_dev_is_deployed_for_no_pin(
    transcript: str,
) -> None:
    served = [line for line in transcript.splitlines() if line.startswith("serving: ")]
    for name in RELEASES:
        own = [line for line in served if line.startswith(f"serving: shoal-mnist-{name} ")]
        assert own
        assert all(f" s3://shoal-mnist-{name}-artifacts-" in line for line in own)
    assert transcript.count("$ shoal deploy dev --local") == 2  # the second with the mistake


def test_it_leaves_no_process_port_or_folder(gitops: Finished, checkout: Checkout) -> None:
    assert mentioning(str(checkout.root)) == ()
    assert not (checkout.root / ".shoal" / "gitops").exists()
    assert list((checkout.root / "tmp").iterdir()) == []


def test_a_second_workload_is_released_beside_the_first(checkout: Checkout) -> None:
    output = checkout.root / "two-workloads"
    options = ("--gitops", "--enforce-iam", "--output", str(output))
    finished = ended(checkout.start("demo", "dev", "houses", *options))
    assert finished.exit_code == 0, finished.output
    assert (
        finished.output.strip().splitlines()[-1]
        == "Succeeded: 10 commits, 3 releases promoted, 3 served in staging, 2 served in prod, 1"
        " rolled back, 1 changed by hand and refused, 1 of houses beside them, 3 accounts; left"
        " behind in accounts, processes, ports and files: nothing"
    )
