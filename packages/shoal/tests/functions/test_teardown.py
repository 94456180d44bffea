"""Teardown deletes everything of one execution and nothing of another: in order, verified,
repeatable, never forgotten.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.functions.fake_sagemaker import ARN, FakeSageMaker
from tests.functions.invocation import Outcome, invoke
from tests.functions.loopback import serving

EXECUTION_ID = "abcdefghijkl"
EXECUTION = f"{ARN}pipeline/shoal-mnist-dev/execution/{EXECUTION_ID}"
ENDPOINT = f"shoal-mnist-dev-{EXECUTION_ID}"
CONFIG = "shoal-mnist-dev-x7k2m9"
MODEL = f"pipelines-{EXECUTION_ID}-CreateModel-h3Xq8W"
NAMELESS = "shoal-mnist-dev-x9"
TAGS = {"shoal:pipeline": "shoal-mnist-dev", "shoal:execution": EXECUTION_ID}
TARGET = f"endpoint/{ENDPOINT}/variant/AllTraffic"
DELETED = [f"endpoint/{ENDPOINT}", f"endpoint-config/{CONFIG}", f"model/{MODEL}"]


@dataclass
class Account:
    """A SageMaker, and the teardown function that talks to it."""

    sagemaker: FakeSageMaker
    url: str

    def step(self, remaining_ms: int = 60_000, execution: str = EXECUTION) -> Outcome:
        return self._invoke({"pipeline_execution_arn": execution}, remaining_ms)

    def queue(self, remaining_ms: int = 60_000, received: int = 1) -> Any:
        outcome = self.deliver(remaining_ms, received)
        assert not outcome.error, outcome.error
        return outcome.result

    def deliver(self, remaining_ms: int = 60_000, received: int = 1) -> Outcome:
        detail = {"pipelineExecutionArn": EXECUTION, "currentPipelineExecutionStatus": "Stopped"}
        record = {
            "messageId": "message-1",
            "receiptHandle": "receipt-1",
            "attributes": {"ApproximateReceiveCount": str(received)},
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:us-east-1:111122223333:teardown",
            "body": json.dumps({"source": "aws.sagemaker", "detail": detail}),
        }
        return self._invoke({"Records": [record]}, remaining_ms)

    def sweep(self) -> Outcome:
        return self._invoke({}, 60_000, module="sweep")

    def pauses(self) -> list[int]:
        """Return for how many seconds messages were hidden."""
        return [
            request["VisibilityTimeout"]
            for operation, request in self.sagemaker.calls
            if operation == "ChangeMessageVisibility"
        ]

    def _invoke(
        self, event: dict[str, Any], remaining_ms: int, module: str = "teardown"
    ) -> Outcome:
        environment = {
            "PIPELINE_NAME": "shoal-mnist-dev",
            "PIPELINE_ARN": f"{ARN}pipeline/shoal-mnist-dev",
            "TTL_MINUTES": "60",
            "RETRY_AFTER_S": "30",
            "LOG_RETENTION_DAYS": "30",
        }
        return invoke(
            "teardown",
            event,
            endpoint_url=self.url,
            remaining_ms=remaining_ms,
            environment=environment,
            module=module,
        )


@pytest.fixture
def account() -> Iterator[Account]:
    """An execution that has ended with everything it creates in place, as its steps report it:
    ARNs are in lower case.
    """
    fake = FakeSageMaker(
        endpoints={ENDPOINT: "InService"},
        configs={CONFIG: MODEL},
        models={MODEL},
        uses={ENDPOINT: CONFIG},
        steps=[
            {"StepName": "Train", "Metadata": {"TrainingJob": {"Arn": f"{ARN}training-job/x"}}},
            {
                "StepName": "CreateModel",
                "Metadata": {"Model": {"Arn": f"{ARN}model/{MODEL}".lower()}},
            },
            {
                "StepName": "CreateEndpointConfig",
                "Metadata": {"EndpointConfig": {"Arn": f"{ARN}endpoint-config/{CONFIG}"}},
            },
            {
                "StepName": "CreateEndpoint",
                "Metadata": {"Endpoint": {"Arn": f"{ARN}endpoint/{ENDPOINT}"}},
            },
        ],
    )
    with serving(fake.answer) as url:
        yield Account(fake, url)


def test_the_step_deletes_endpoint_then_configuration_then_model(account: Account) -> None:
    outcome = account.step()
    assert account.sagemaker.deleted == DELETED
    assert outcome.result == {"status": "deleted", "deleted": json.dumps(DELETED)}


def test_what_the_container_said_is_kept_for_a_time_and_other_logs_are_left_alone(
    account: Account,
) -> None:
    other = "/aws/sagemaker/Endpoints/somebody-elses"
    own = f"/aws/sagemaker/Endpoints/{ENDPOINT}"
    account.sagemaker.log_groups = {own: None, other: None}
    account.step()
    assert account.sagemaker.log_groups == {own: 30, other: None}


@pytest.mark.parametrize(
    ("found", "deleted"),
    [
        pytest.param({"refused": ("PutRetentionPolicy",)}, DELETED, id="log cannot be limited"),
        pytest.param(
            {"steps": []}, DELETED, id="no step reports the endpoint: its name has the id"
        ),
        pytest.param(
            {"endpoints": {}, "uses": {}}, DELETED[1:], id="a step alone reports the configuration"
        ),
    ],
)
def test_the_step_deletes_what_is_there(
    account: Account, found: dict[str, Any], deleted: list[str]
) -> None:
    vars(account.sagemaker).update(found)
    account.step()
    assert account.sagemaker.deleted == deleted


def _with(status: str) -> dict[str, Any]:
    return {"endpoints": {ENDPOINT: status}}


SCALED = [f"scalable-target/{TARGET}"]


@pytest.mark.parametrize(
    ("found", "comes_back", "deleted"),
    [
        pytest.param({}, False, DELETED, id="all that the step deletes"),
        pytest.param({"status": ""}, False, DELETED, id="execution is not known any more"),
        pytest.param({"lost_targets": {TARGET}}, False, DELETED, id="target is gone meanwhile"),
        pytest.param(_with("Updating") | {"targets": {TARGET}}, True, SCALED, id="being scaled"),
        *(
            pytest.param({"targets": {TARGET}, "refused": (each,)}, True, DELETED, id=f"no {each}")
            for each in ("DescribeScalableTargets", "DeregisterScalableTarget")
        ),
        *(
            pytest.param(_with(status), True, [], id=status)
            for status in ("Creating", "Updating", "SystemUpdating", "RollingBack")
        ),
        *(
            pytest.param(_with(status), False, DELETED, id=status)
            for status in ("Failed", "OutOfService", "UpdateRollbackFailed")
        ),
    ],
)
def test_the_queue_deletes_what_it_may_and_brings_the_message_back_for_the_rest(
    account: Account, found: dict[str, Any], comes_back: bool, deleted: list[str]
) -> None:
    vars(account.sagemaker).update(found)
    back = [{"itemIdentifier": "message-1"}] if comes_back else []
    assert account.queue() == {"batchItemFailures": back}
    assert account.sagemaker.deleted == deleted


def test_scalable_targets_are_deregistered_before_their_endpoint_goes(account: Account) -> None:
    account.sagemaker.targets = {TARGET, "endpoint/shoal-mnist-dev/variant/AllTraffic"}
    assert json.loads(account.step().result["deleted"]) == [f"scalable-target/{TARGET}", *DELETED]
    assert account.sagemaker.deleted == [f"scalable-target/{TARGET}", *DELETED]
    assert account.sagemaker.targets == {"endpoint/shoal-mnist-dev/variant/AllTraffic"}


def test_an_endpoint_that_is_updated_meanwhile_is_come_back_for_and_not_called_deleted(
    account: Account,
) -> None:
    account.sagemaker.updated_meanwhile = True
    assert account.step().result == {"status": "pending", "deleted": "[]"}
    assert account.queue() == {"batchItemFailures": [{"itemIdentifier": "message-1"}]}
    assert account.sagemaker.deleted == []


def test_a_second_run_finds_nothing_and_succeeds(account: Account) -> None:
    account.step()
    assert account.step().result == {"status": "deleted", "deleted": "[]"}


def test_the_configuration_waits_until_the_endpoint_is_really_gone(account: Account) -> None:
    account.sagemaker.gone_after = 2
    assert account.step().result["status"] == "deleted"
    described = [operation for operation, _ in account.sagemaker.calls].index(
        "DeleteEndpointConfig"
    )
    assert [operation for operation, _ in account.sagemaker.calls[:described]].count(
        "DescribeEndpoint"
    ) >= 4


def test_an_endpoint_that_takes_longer_than_the_function_is_pending(account: Account) -> None:
    account.sagemaker.gone_after = 1000
    assert account.step(remaining_ms=17_000).result["status"] == "pending"
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


def test_a_creating_endpoint_leaves_the_step_pending_and_keeps_what_it_uses(
    account: Account,
) -> None:
    account.sagemaker.endpoints[ENDPOINT] = "Creating"
    assert account.step().result == {"status": "pending", "deleted": "[]"}
    assert account.sagemaker.models == {MODEL}


def test_a_configuration_that_no_step_reports_is_found_through_its_endpoint(
    account: Account,
) -> None:
    del account.sagemaker.steps[2]
    account.step()
    assert account.sagemaker.deleted == DELETED


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


@pytest.mark.parametrize(
    "tags",
    [
        TAGS | {"shoal:execution": "zzzzzzzzzzzz"},
        TAGS | {"shoal:pipeline": "shoal-mnist-dev-2"},
        TAGS | {"shoal:execution": ""},
        TAGS | {"shoal:execution": "a"},
        {},
    ],
)
def test_what_tags_call_anothers_or_nobodys_stays(account: Account, tags: dict[str, str]) -> None:
    account.sagemaker.configs[NAMELESS] = MODEL
    account.sagemaker.tags[NAMELESS] = tags
    account.step()
    assert account.sagemaker.configs == {NAMELESS: MODEL}


def test_a_configuration_by_its_tags_does_not_take_another_executions_model_with_it(
    account: Account,
) -> None:
    used = "shoal-mnist-dev-zzzzzzzzzzzz"
    account.sagemaker.models.add(used)
    account.sagemaker.configs[NAMELESS], account.sagemaker.tags[NAMELESS] = used, TAGS
    account.step()
    assert (account.sagemaker.models, account.sagemaker.configs) == ({used}, {})


def test_a_configuration_takes_a_model_that_is_called_after_an_execution_which_nobody_knows(
    account: Account,
) -> None:
    """Twelve letters may be part of a name."""
    account.sagemaker.status, used = "", "shoal-mnist-dev-digitservice"
    account.sagemaker.models.add(used)
    account.sagemaker.configs[NAMELESS], account.sagemaker.tags[NAMELESS] = used, TAGS
    account.step()
    assert (account.sagemaker.models, account.sagemaker.configs) == (set(), {})


def test_a_configuration_in_use_stays_although_its_tags_say_whose_it_is(account: Account) -> None:
    account.sagemaker.configs[NAMELESS], account.sagemaker.tags[NAMELESS] = MODEL, TAGS
    account.sagemaker.uses[ENDPOINT], account.sagemaker.endpoints[ENDPOINT] = NAMELESS, "Creating"
    assert account.step().result == {"status": "pending", "deleted": "[]"}
    assert NAMELESS in account.sagemaker.configs


def test_tags_that_may_not_be_read_keep_nothing_that_is_known_and_the_message_comes_back(
    account: Account,
) -> None:
    account.sagemaker.configs[NAMELESS], account.sagemaker.refused = MODEL, ("ListTags",)
    assert account.queue() == {"batchItemFailures": [{"itemIdentifier": "message-1"}]}
    assert account.sagemaker.deleted == DELETED


@pytest.mark.parametrize(
    ("operation", "search"),
    [
        ("ListPipelineExecutionSteps", "steps of"),
        ("ListEndpoints", "names of endpoints"),
        ("ListEndpointConfigs", "names of endpoint configs"),
        ("ListModels", "names of models"),
        ("DescribeEndpointConfig", "references of endpoint config"),
        ("ListTags", "tags of endpoint config"),
    ],
)
def test_an_error_of_one_search_is_reported_and_hides_nothing_that_the_others_find(
    account: Account, operation: str, search: str
) -> None:
    account.sagemaker.refused = (operation,)
    account.sagemaker.configs[NAMELESS] = "of-nobody"
    outcome = account.step()
    assert outcome.result == {"status": "pending", "deleted": json.dumps(DELETED)}
    assert search in outcome.log


@pytest.mark.parametrize("operation", ["ListPipelineExecutionSteps", "ListEndpoints"])
def test_an_error_of_one_search_brings_the_message_back(account: Account, operation: str) -> None:
    account.sagemaker.refused = (operation,)
    assert account.queue() == {"batchItemFailures": [{"itemIdentifier": "message-1"}]}
    assert account.sagemaker.deleted == DELETED


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


def test_a_deletion_that_fails_otherwise_is_tried_again_without_an_alarm(account: Account) -> None:
    account.sagemaker.refused = ("DeleteEndpoint",)
    account.sagemaker.error_code = "InternalFailure"
    assert account.step().result["status"] == "pending"
    assert account.queue() == {"batchItemFailures": [{"itemIdentifier": "message-1"}]}


def test_the_sweeper_leaves_what_a_person_named_alike_and_did_not_tag(account: Account) -> None:
    account.sagemaker.status, account.sagemaker.steps = "", []
    account.sagemaker.endpoints["shoal-mnist-dev-experimental"] = "InService"
    account.sagemaker.tags = {ENDPOINT: TAGS, "shoal-mnist-dev-experimental": {}}
    report = account.sweep().result
    assert (report["past_ttl"], report["endpoints_past_ttl"]) == ([EXECUTION_ID], 1)
    assert [*account.sagemaker.endpoints] == ["shoal-mnist-dev-experimental"]
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


@pytest.mark.parametrize("execution_id", ["", "a", "ABCDEFGHIJKL"])
def test_what_is_no_executions_arn_is_refused_before_anything_is_looked_for(
    account: Account, execution_id: str
) -> None:
    outcome = account.step(execution=f"{ARN}pipeline/shoal-mnist-dev/execution/{execution_id}")
    assert "does not end in an execution's id" in outcome.error
    assert account.sagemaker.calls == []


def test_what_is_gone_before_its_tags_are_read_is_no_trouble(account: Account) -> None:
    account.sagemaker.configs[NAMELESS] = MODEL
    account.step()
    assert account.sagemaker.deleted == DELETED


def test_a_model_without_endpoint_is_deleted(account: Account) -> None:
    account.sagemaker.endpoints.clear()
    account.sagemaker.configs.clear()
    assert json.loads(account.step().result["deleted"]) == [f"model/{MODEL}"]


def test_another_executions_endpoint_stays(account: Account) -> None:
    account.sagemaker.endpoints["shoal-mnist-dev-zzzzzzzzzzzz"] = "InService"
    account.step()
    assert account.sagemaker.endpoints == {"shoal-mnist-dev-zzzzzzzzzzzz": "InService"}


def test_the_endpoint_that_serves_a_release_stays_with_what_it_uses(account: Account) -> None:
    """It has the pipeline's name; CloudFormation gave the others theirs."""
    account.sagemaker.endpoints["shoal-mnist-dev"] = "InService"
    account.sagemaker.configs["ServedConfigBA23A3D9-x"] = "ServedModelB0AF3034-x"
    account.sagemaker.models.add("ServedModelB0AF3034-x")
    account.sagemaker.uses["shoal-mnist-dev"] = "ServedConfigBA23A3D9-x"
    account.step()
    assert account.sagemaker.endpoints == {"shoal-mnist-dev": "InService"}
    assert (account.sagemaker.configs, account.sagemaker.models) == (
        {"ServedConfigBA23A3D9-x": "ServedModelB0AF3034-x"},
        {"ServedModelB0AF3034-x"},
    )


def test_a_name_of_another_owner_is_left_alone(account: Account) -> None:
    account.sagemaker.endpoints[f"team-b-{EXECUTION_ID}"] = "InService"
    account.step()
    assert account.sagemaker.endpoints == {f"team-b-{EXECUTION_ID}": "InService"}


def test_an_error_that_is_not_a_missing_resource_is_not_taken_for_success(account: Account) -> None:
    with serving(
        lambda _: (
            400,
            json.dumps({"__type": "AccessDeniedException", "message": "not authorized"}).encode(),
        )
    ) as url:
        account.url = url
        assert "AccessDeniedException" in account.step().error
