"""The sweeper deletes what executions left behind, and says what it could not read."""

from __future__ import annotations

import pytest

from tests.functions.teardown_account import (
    ENDPOINT,
    EXECUTION_ID,
    MODEL,
    NAMELESS,
    NEXT,
    TAGS,
    Account,
)


@pytest.mark.parametrize(
    ("status", "left"), [("Failed", "Terminated"), ("Executing", "Available"), ("", "Available")]
)
def test_the_sweeper_ends_the_pool_of_an_execution_that_left_nothing_else(
    account: Account, status: str, left: str
) -> None:
    own = f"pipelines-{EXECUTION_ID}-Train-x"
    account.sagemaker.pools, account.sagemaker.status = {own: "Available"}, status
    for kind in (account.sagemaker.endpoints, account.sagemaker.configs, account.sagemaker.models):
        kind.clear()
    account.more = {"WARM_POOLS": "1"}
    deleted = account.sweep().result["deleted"]
    assert account.sagemaker.pools == {own: left}
    assert (f"warm-pool/{own}" in deleted) is (left == "Terminated")


def test_the_sweeper_deletes_a_configuration_that_is_alone(account: Account) -> None:
    fake = account.sagemaker
    fake.endpoints, fake.configs, fake.models, fake.steps = {}, {NEXT: "of-nobody"}, set(), []
    assert account.sweep().result["deleted"] == [f"endpoint-config/{NEXT}"]


def test_the_sweeper_leaves_what_a_person_named_alike_and_did_not_tag(account: Account) -> None:
    """No id of an execution is empty or one letter long."""
    account.sagemaker.status, account.sagemaker.steps = "", []
    account.sagemaker.endpoints["shoal-mnist-dev-experimental"] = "InService"
    others = {f"shoal-mnist-dev-x{each}": TAGS | {"shoal:execution": each} for each in ("", "a")}
    account.sagemaker.configs |= dict.fromkeys(others, MODEL)
    account.sagemaker.tags = {ENDPOINT: TAGS, "shoal-mnist-dev-experimental": {}, **others}
    report = account.sweep().result
    assert (report["past_ttl"], report["endpoints_past_ttl"]) == ([EXECUTION_ID], 1)
    assert [*account.sagemaker.endpoints] == ["shoal-mnist-dev-experimental"]
    assert account.sagemaker.configs.keys() == others.keys()
    assert not report["pending"]


def test_an_execution_whose_status_cannot_be_read_keeps_the_sweeper_from_no_other(
    account: Account,
) -> None:
    other = "shoal-mnist-dev-zzzzzzzzzzzz"
    account.sagemaker.endpoints[other], account.sagemaker.steps = "InService", []
    account.sagemaker.unreadable = (EXECUTION_ID,)
    outcome = account.sweep()
    assert account.sagemaker.deleted == [f"endpoint/{other}"]
    assert f"steps of execution {EXECUTION_ID}" in outcome.log
    assert "steps could not be read" in outcome.error


@pytest.mark.parametrize(
    ("operation", "unread", "left"),
    [("ListTags", ["tags"], {NAMELESS}), ("ListEndpoints", ["names", "tags"], set())],
)
def test_a_sweeper_that_may_not_read_all_deletes_the_rest_and_fails_on_its_schedule(
    account: Account, operation: str, unread: list[str], left: set[str]
) -> None:
    """Nobody reads the report of what a schedule starts."""
    fake = account.sagemaker
    fake.configs[NAMELESS], fake.tags[NAMELESS], fake.refused = MODEL, TAGS, (operation,)
    report = account.sweep({"dry_run": False}).result
    assert (report["unread"], report["complete"], {*fake.configs}) == (unread, False, left)
    assert account.sweep().error.startswith(f"RuntimeError: {' and '.join(unread)} could not")
