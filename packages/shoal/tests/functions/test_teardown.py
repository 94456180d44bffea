"""Teardown deletes everything of one execution and nothing of another: in order, verified,
repeatable, never forgotten. The sweeper deletes what executions left behind, and says what it could
not read.
"""

import json
from typing import Any

import pytest

from local_kit.tables import rows
from tests.functions.fake_sagemaker import ARN, IN_PROGRESS, FakeSageMaker
from tests.functions.teardown_account import (
    CONFIG,
    DELETED,
    ENDPOINT,
    EXECUTION_ID,
    MODEL,
    NAMELESS,
    NEXT,
    STEPS,
    TAGS,
    TARGET,
    Account,
)


def test_the_step_deletes_endpoint_then_configuration_then_model(account: Account) -> None:
    outcome = account.step()
    assert account.sagemaker.deleted == DELETED
    assert outcome.result == {"status": "deleted", "deleted": json.dumps(DELETED)}


@pytest.mark.parametrize(
    ("keeps", "status", "refused", "left", "finished"), rows(__file__, "cases.yaml", "pools")
)
def test_the_warm_pools_of_the_execution_end_and_no_others(
    account: Account,
    keeps: bool,
    status: str,
    refused: list[str],
    left: str,
    finished: bool | None,
) -> None:
    own, other = (f"pipelines-{each}-Train-x" for each in (EXECUTION_ID, "zzzzzzzzzzzz"))
    account.sagemaker.pools = {own: status, other: "Available"}
    account.sagemaker.refused = (*refused,)
    account.more = {"WARM_POOLS": "1"} if keeps else {}
    outcome = account.step()
    assert account.sagemaker.pools == {own: left, other: "Available"}
    assert account.sagemaker.deleted == DELETED  # pools keep nothing else
    if finished is None:
        assert "AccessDenied" in str(outcome.error)
        return
    assert outcome.result["status"] == ("deleted" if finished else "pending")
    ended = f"warm-pool/{own}" in outcome.result["deleted"]
    assert ended is (left == "Terminated")


def test_what_the_container_said_is_kept_for_a_time_and_other_logs_are_left_alone(
    account: Account,
) -> None:
    other = "/aws/sagemaker/Endpoints/somebody-elses"
    own = f"/aws/sagemaker/Endpoints/{ENDPOINT}"
    account.sagemaker.log_groups = {own: None, other: None}
    account.step()
    assert account.sagemaker.log_groups == {own: 30, other: None}


def change(fake: FakeSageMaker, found: dict[str, Any]) -> None:
    """Give a fake other fields, of which a table has sets and tuples as lists."""
    vars(fake).update({key: type(vars(fake)[key])(value) for key, value in found.items()})


ALONE = pytest.param({"steps": [*STEPS[:2], STEPS[3]]}, DELETED, [], id="an endpoint refers to it")


@pytest.mark.parametrize(
    ("found", "deleted", "left"), [ALONE, *rows(__file__, "cases.yaml", "step")]
)
def test_the_step_deletes_what_is_the_executions_and_nothing_else(
    account: Account, found: dict[str, Any], deleted: list[str], left: list[str]
) -> None:
    fake = account.sagemaker
    change(fake, found)
    assert json.loads(account.step().result["deleted"]) == fake.deleted == deleted
    assert sorted([*fake.endpoints, *fake.configs, *fake.models]) == sorted(left)


def test_an_endpoint_that_is_updated_meanwhile_is_come_back_for_and_not_called_deleted(
    account: Account,
) -> None:
    """That is no error, which would be logged."""
    account.sagemaker.updated_meanwhile = True
    outcome = account.step()
    assert outcome.result == {"status": "pending", "deleted": "[]"}
    assert "deletion of endpoint" not in outcome.log
    assert account.queue() == {"batchItemFailures": [{"itemIdentifier": "message-1"}]}
    assert account.sagemaker.deleted == []


@pytest.mark.parametrize(("found", "comes_back", "deleted"), rows(__file__, "cases.yaml", "queue"))
def test_the_queue_deletes_what_it_may_and_brings_the_message_back_for_the_rest(
    account: Account, found: dict[str, Any], comes_back: bool, deleted: list[str]
) -> None:
    change(account.sagemaker, found)
    back = [{"itemIdentifier": "message-1"}] if comes_back else []
    is_idle = account.sagemaker.endpoints[ENDPOINT] not in IN_PROGRESS
    assert account.queue() == {"batchItemFailures": back}
    assert account.sagemaker.deleted == deleted
    operations = [operation for operation, _ in account.sagemaker.calls]
    assert ("DeleteEndpoint" in operations) == is_idle


def test_scalable_targets_are_deregistered_before_their_endpoint_goes(account: Account) -> None:
    account.sagemaker.targets = {TARGET, "endpoint/shoal-mnist-dev/variant/AllTraffic"}
    assert json.loads(account.step().result["deleted"]) == [f"scalable-target/{TARGET}", *DELETED]
    assert account.sagemaker.deleted == [f"scalable-target/{TARGET}", *DELETED]
    assert account.sagemaker.targets == {"endpoint/shoal-mnist-dev/variant/AllTraffic"}


def test_a_second_run_finds_nothing_and_succeeds(account: Account) -> None:
    account.step()
    assert account.step().result == {"status": "deleted", "deleted": "[]"}


def test_the_configuration_waits_until_the_endpoint_is_really_gone(account: Account) -> None:
    account.sagemaker.gone_after = 2
    assert account.step().result["status"] == "deleted"
    operations = [operation for operation, _ in account.sagemaker.calls]
    before = operations[: operations.index("DeleteEndpointConfig")]
    assert before.count("DescribeEndpoint") >= 4


def test_an_endpoint_that_takes_longer_than_the_function_is_pending(account: Account) -> None:
    account.sagemaker.gone_after = 1000
    assert account.step(remaining_ms=22_000).result["status"] == "pending"
    assert account.sagemaker.configs.keys() == {CONFIG}


@pytest.mark.parametrize(("received", "pause_s"), [(1, 30), (2, 60), (5, 480), (6, 900), (12, 900)])
def test_each_try_comes_later_than_the_one_before_up_to_a_quarter_of_an_hour(
    account: Account, received: int, pause_s: int
) -> None:
    account.sagemaker.endpoints[ENDPOINT] = "Creating"
    account.queue(received=received)
    assert account.pauses() == [pause_s]


def test_an_event_of_an_execution_that_runs_deletes_nothing_and_is_looked_at_again(
    account: Account,
) -> None:
    account.sagemaker.status = "Executing"
    assert account.queue() == {"batchItemFailures": [{"itemIdentifier": "message-1"}]}
    assert (account.sagemaker.deleted, account.pauses()) == ([], [30])
    # Later it is left to the event of its own end.
    assert account.queue(received=3) == {"batchItemFailures": []}
    assert account.sagemaker.deleted == []


def test_the_step_deletes_although_its_execution_runs(account: Account) -> None:
    account.sagemaker.status = "Executing"
    assert account.step().result["status"] == "deleted"


@pytest.mark.parametrize("kind", ["endpoint", "endpoint-config", "model"])
def test_what_says_in_its_tags_alone_whose_it_is_is_deleted(account: Account, kind: str) -> None:
    """No step reports it, nothing refers to it and its name has no execution's id."""
    fake = account.sagemaker
    account.step()
    if kind == "endpoint":
        fake.endpoints[NAMELESS] = "InService"
    elif kind == "endpoint-config":
        fake.configs[NAMELESS] = MODEL
    else:
        fake.models.add(NAMELESS)
    fake.tags[NAMELESS] = TAGS
    assert json.loads(account.step().result["deleted"]) == [f"{kind}/{NAMELESS}"]
    assert not fake.endpoints | fake.configs
    assert not fake.models


def test_a_configuration_in_use_stays_although_its_tags_say_whose_it_is(account: Account) -> None:
    account.sagemaker.configs[NAMELESS], account.sagemaker.tags[NAMELESS] = MODEL, TAGS
    account.sagemaker.uses[ENDPOINT], account.sagemaker.endpoints[ENDPOINT] = NAMELESS, "Creating"
    assert account.step().result == {"status": "pending", "deleted": "[]"}
    assert NAMELESS in account.sagemaker.configs


@pytest.mark.parametrize(("operation", "search"), rows(__file__, "cases.yaml", "searches"))
def test_an_error_of_one_search_is_reported_and_hides_nothing_that_the_others_find(
    account: Account, operation: str, search: str
) -> None:
    account.sagemaker.refused = (operation,)
    account.sagemaker.configs[NAMELESS] = "of-nobody"
    outcome = account.step()
    assert outcome.result == {"status": "pending", "deleted": json.dumps(DELETED)}
    assert search in outcome.log


def test_an_error_of_one_deletion_keeps_nothing_else(account: Account) -> None:
    other = f"{ENDPOINT}-2"
    account.sagemaker.endpoints[other], account.sagemaker.kept = "InService", (ENDPOINT,)
    outcome = account.step()
    assert (account.sagemaker.deleted, ENDPOINT in outcome.log) == ([f"endpoint/{other}"], True)


@pytest.mark.parametrize("name", [ENDPOINT, CONFIG, MODEL])
def test_what_somebody_else_deletes_meanwhile_is_done_and_alarms_nobody(
    account: Account, name: str
) -> None:
    account.sagemaker.deleted_meanwhile = (name,)
    outcome = account.step()
    rest = [each for each in DELETED if not each.endswith(f"/{name}")]
    assert outcome.result == {"status": "deleted", "deleted": json.dumps(rest)}, outcome.error


def test_a_refused_deletion_rings_at_once_and_its_message_comes_back(account: Account) -> None:
    """Lambda counts the error, which the function's alarm watches; the queue keeps the message."""
    account.sagemaker.kept = (ENDPOINT,)
    assert "AccessDeniedException" in account.step().error
    assert "AccessDeniedException" in account.deliver(received=3).error
    assert account.pauses() == [120]


def test_tags_of_one_resource_that_may_not_be_read_hide_no_others(account: Account) -> None:
    unreadable = "shoal-mnist-dev-a1"
    account.sagemaker.configs |= {unreadable: "of-nobody", NAMELESS: "of-nobody"}
    account.sagemaker.unreadable = (unreadable,)
    account.sagemaker.tags[NAMELESS] = TAGS
    assert account.step().result["status"] == "pending"
    assert account.sagemaker.configs == {unreadable: "of-nobody"}


def test_tags_are_not_read_on_after_an_error_that_is_no_refusal(account: Account) -> None:
    account.sagemaker.configs |= {"shoal-mnist-dev-a1": "of-nobody", NAMELESS: "of-nobody"}
    account.sagemaker.refused, account.sagemaker.error_code = ("ListTags",), "InvalidRequest"
    assert account.step().result["status"] == "pending"
    operations = [operation for operation, _ in account.sagemaker.calls]
    assert operations.count("ListTags") == 1


OTHERS = [f"{name}/execution/{EXECUTION_ID}" for name in ("shoal-mnist-dev-two", "x")]


@pytest.mark.parametrize("end", ["", "a", "ABCDEFGHIJKL", *OTHERS])
def test_what_is_no_executions_arn_is_refused_before_anything_is_looked_for(
    account: Account, end: str
) -> None:
    name = end if end in OTHERS else f"shoal-mnist-dev/execution/{end}"
    error = account.step(execution=f"{ARN}pipeline/{name}").error
    says = "is no execution of shoal-mnist-dev" if end in OTHERS else "does not end in an execution"
    assert says in error
    assert account.sagemaker.calls == []


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


@pytest.mark.parametrize("dry_run", ["true", "false", 1, None])
def test_only_true_and_false_say_whether_anything_is_deleted(
    account: Account, dry_run: Any
) -> None:
    assert account.sweep({"dry_run": dry_run}).error.startswith("ValueError: dry_run is ")
    assert account.sagemaker.calls == []


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
