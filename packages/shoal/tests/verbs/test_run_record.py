"""What run.json says of a run of which not all can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from botocore.exceptions import ClientError

from local_kit.tables import rows
from shoal.aws.execution import Execution, Step
from shoal.aws.logs import LogLine
from shoal.costs import prices
from shoal.page import history
from shoal.page.lineage import lineage_of
from shoal.page.look import Look
from shoal.page.record import checkpoint_of, training_of, verdict_of
from shoal.page.resources import Cleanup, Use, money_of, resources_of, uses_of
from shoal.page.results import GateResult
from shoal.page.step_log import StepLog

if TYPE_CHECKING:
    from shoal.page.look import Place

BEGAN = datetime(2026, 11, 24, tzinfo=UTC)
HERE = "arn:aws:sagemaker:us-east-1:111122223333"
MLFLOW = "http://127.0.0.1:5000"
DENIED = ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "List")


price_of = partial(prices.instance, region="us-east-1")


class Account(SimpleNamespace):
    """A target, by which answers may be kept."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def at(seconds: int) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def made_step(name: str, kind: str, **more: Any) -> Step:
    """Return a step that ended well and made `kind`/a."""
    arn = {kind: {"Arn": f"{HERE}:{kind.lower()}/a"}}
    return Step(name, kind, "Succeeded", at(0), at(60), metadata=arn, **more)


def look_at(*steps: Step, status: str = "Failed", client: Any = None, **more: Any) -> Look:
    """Return a look, an hour after its start, at an execution with these steps."""
    target = Account(client=lambda _: client)
    place = SimpleNamespace(target=target, arguments="dev", price_of=price_of)
    execution = Execution(f"{HERE}:pipeline/p/execution/abc", status, "", at(0), steps)
    given: dict[str, Any] = {"definition": {}, "parameters": {}, "now": at(3600)} | more
    return Look(cast("Place", place), execution, **given)


def paged(paginate: Callable[..., Iterator[dict[str, list[Any]]]]) -> SimpleNamespace:
    """Return a paginator with these pages, each of one list."""

    def pages(**request: Any) -> Pages:
        return Pages(paginate(**request))

    return SimpleNamespace(paginate=pages)


class Pages:
    """Pages that are read once, whole or item by item."""

    def __init__(self, pages: Iterator[dict[str, list[Any]]]) -> None:
        self._pages = pages

    def __iter__(self) -> Iterator[dict[str, list[Any]]]:
        return self._pages

    def result_key_iters(self) -> list[Iterator[Any]]:
        return [(item for page in self for items in page.values() for item in items)]


class Lists:
    """A client of SageMaker whose lists hold these endpoints; every other list is refused."""

    def __init__(self, *endpoints: dict[str, str]) -> None:
        self.endpoints = list(endpoints)

    def get_paginator(self, operation: str) -> SimpleNamespace:
        def paginate(**_: object) -> Iterator[dict[str, Any]]:
            if operation != "list_endpoints":
                raise DENIED
            yield {"Endpoints": self.endpoints}

        return paged(paginate)


def test_what_could_not_be_asked_is_neither_gone_nor_there() -> None:
    steps = (
        made_step("Train", "TrainingJob"),
        made_step("CreateModel", "Model"),
        made_step("CreateEndpoint", "Endpoint"),
    )
    look = look_at(*steps, client=Lists())
    resources = resources_of(look, {"Train": None})
    found = [(each["kind"], each["state"], each["gone"]) for each in resources]
    assert found == [
        ("TrainingJob", "not known", None),
        ("Model", "not known", None),
        ("Endpoint", "deleted", True),
    ]
    assert look.unread == ["Model a: List was refused: AccessDenied: no"]


def test_a_job_that_could_not_be_read_leaves_the_cost_unknown() -> None:
    look = look_at(made_step("Train", "TrainingJob"))
    money = money_of(uses_of(look, {"Train": None}), price_of)
    assert (money["usd"], [each["step"] for each in money["items"]]) == (None, ["Train"])


class Attempts:
    """A client of SageMaker with a step's jobs, of which one has another step's longer name."""

    names = ("p-abc-Train-Xy1", "p-abc-Train-Again-Xy2", "p-abc-Train-Xy3", "p-abc-Train-Xy4")

    def get_paginator(self, _: str) -> SimpleNamespace:
        def paginate(**wanted: Any) -> Iterator[dict[str, Any]]:
            assert (wanted["NameContains"], wanted["SortOrder"]) == ("p-abc-Train-", "Ascending")
            yield {"TrainingJobSummaries": [{"TrainingJobName": each} for each in self.names]}

        return paged(paginate)

    def describe_training_job(self, TrainingJobName: str) -> dict[str, Any]:  # noqa: N803
        if TrainingJobName.endswith("Xy3"):
            raise DENIED
        return trained(10)


def trained(seconds: int) -> dict[str, Any]:
    place = {"InstanceType": "ml.m5.xlarge", "InstanceCount": 2}
    times = {"TrainingStartTime": at(0), "TrainingEndTime": at(seconds)}
    return {"ResourceConfig": place, "BillableTimeInSeconds": seconds, **times}


def test_the_attempts_before_a_steps_last_one_cost_too() -> None:
    step = replace(made_step("Train", "TrainingJob"), attempts=3)
    last = {**trained(60), "kind": "TrainingJob", "name": "p-abc-Train-Xy4"}
    look = look_at(step, client=Attempts())
    uses = list(uses_of(look, {"Train": last}))
    assert [(each.step, each.seconds) for each in uses] == [
        ("Train", 10.0),
        ("Train", None),
        ("Train", 60.0),
    ]
    assert look.unread == ["p-abc-Train-Xy3: List was refused: AccessDenied: no"]


@pytest.mark.parametrize(
    ("status", "objects", "expected"), rows(__file__, "cases.yaml", "checkpoints")
)
def test_the_newest_checkpoint_that_reached_s3_has_an_age(
    status: str, objects: dict[str, int], expected: list[str | float] | None
) -> None:
    def paginate(**wanted: str) -> Iterator[dict[str, Any]]:
        assert wanted == {"Bucket": "b", "Prefix": "checkpoints/p/abc/"}
        prefix = wanted["Prefix"]
        yield {"Contents": [{"Key": prefix + k, "LastModified": at(s)} for k, s in objects.items()]}

    client = SimpleNamespace(get_paginator=lambda _: paged(paginate))
    config = {"S3Uri": "s3://b/checkpoints/p/abc"}
    job = {"TrainingJobStatus": status, "CheckpointConfig": config}
    kept = checkpoint_of(look_at(client=client), job)
    assert (kept and [kept["file"], kept["seconds"]]) == expected


def test_attempts_that_cannot_be_listed_leave_the_cost_unknown() -> None:
    step = replace(made_step("Train", "TrainingJob"), attempts=2)
    last = {**trained(60), "kind": "TrainingJob", "name": "p-abc-Train-Xy4"}
    money = money_of(uses_of(look_at(step, client=Lists()), {"Train": last}), price_of)
    assert [item["usd"] is None for item in money["items"]] == [True, False]


VARIANT = {"InstanceType": {"Get": "Parameters.Kind"}, "InitialInstanceCount": 2}
CONFIG = {
    "Name": "Config",
    "Type": "EndpointConfig",
    "Arguments": {"ProductionVariants": [VARIANT]},
}
ENDPOINT = {"EndpointName": "a", "EndpointConfigName": {"Get": "Steps.Config.EndpointConfigName"}}
HOSTING = {"Steps": [CONFIG, {"Name": "Host", "Type": "Endpoint", "Arguments": ENDPOINT}]}


@pytest.mark.parametrize(("is_gone", "seconds"), [(True, 60.0), (False, 3600.0), (None, None)])
def test_an_endpoint_costs_while_it_is_there(is_gone: bool | None, seconds: float | None) -> None:
    step = made_step("Host", "Endpoint")
    look = look_at(step, definition=HOSTING, parameters={"Kind": "ml.m5.xlarge"})
    made = [{"kind": "Endpoint", "name": "A", "gone": is_gone}]
    (use,) = uses_of(look, {}, made)
    assert use == Use("Host", "ml.m5.xlarge", 2, seconds, runs=is_gone is False)


def test_an_endpoint_that_outlived_its_run_costs_until_it_was_deleted() -> None:
    made = [{"kind": "Endpoint", "name": "a", "gone": True}]
    swept = [Cleanup("sweep", at(900), "left what runs or is young")]
    swept.append(Cleanup("sweep", at(1800), "deleted endpoint/A"))
    look = look_at(made_step("Host", "Endpoint"), definition=HOSTING)
    assert [use.seconds for use in uses_of(look, {}, made, swept)] == [1800.0]


def test_the_cost_of_an_endpoint_with_a_configuration_from_elsewhere_is_unknown() -> None:
    made = [{"kind": "Endpoint", "name": "a", "gone": True}]
    (use,) = uses_of(look_at(made_step("Host", "Endpoint")), {}, made)
    assert (use.instance_type, use.seconds) == (None, 60.0)


@pytest.mark.parametrize(
    ("failed", "reason"),
    [("GateFailed", "rmse 9, must be at most 5"), ("Seal", "Access Denied")],
)
def test_a_missed_gate_is_the_reason_of_its_own_step(failed: str, reason: str) -> None:
    gate = {"ElseSteps": [{"Name": "GateFailed", "Type": "Fail"}]}
    definition = {"Steps": [{"Name": "Gate", "Type": "Condition", "Arguments": gate}]}
    step = Step(failed, "", "Failed", ended_at=at(60), failure_reason="Access Denied")
    missed = GateResult("rmse", "at most 5", 9, passed=False)
    verdict = verdict_of(look_at(step, definition=definition), [missed], {}, None)
    assert (verdict["step"], verdict["reason"]) == (failed, reason)


@pytest.mark.parametrize(
    ("commit", "how"), [("", "no commit here has"), (None, "could not be compared")]
)
def test_a_commit_not_looked_for_is_told(commit: str | None, how: str) -> None:
    training = {
        "TrainingJobName": "t",
        "HyperParameters": {"sagemaker_submit_directory": "s3://b/code.tar.gz"},
    }
    link = next(lineage_of(look_at().execution, training, None, None, commit))
    assert (link.what, link.value, link.holds) == ("commit", "not known", None)
    assert how in link.how


def test_runs_that_cannot_be_read_are_noted_on_the_page_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed = [{"PipelineExecutionArn": f"p/{name}"} for name in ("new", "old")]
    place = SimpleNamespace(
        target=SimpleNamespace(client=lambda _: Lists()),
        model_package_group="p",
        arguments="dev",
        pipeline=SimpleNamespace(executions=lambda: listed),
    )

    def read(_: Place, arn: str) -> dict[str, Any]:
        if arn == "p/old":
            raise DENIED
        return {"unread": ["gates: no"]}

    monkeypatch.setattr(history, "record", read)
    found = history.with_others(cast("Place", place), "p/new")
    assert found["others"] == []
    assert found["unread"] == [
        "gates: no",
        "the approved version: List was refused: AccessDenied: no",
        "the run before: List was refused: AccessDenied: no",
    ]


@pytest.mark.parametrize(("status", "verb"), [("Executing", "stop"), ("Stopping", "status")])
def test_a_run_that_is_stopping_needs_no_stop(status: str, verb: str) -> None:
    verdict = verdict_of(look_at(status=status), [], {}, None)
    assert verdict["next"] == f"shoal {verb} dev abc"


@pytest.mark.parametrize(("server", "line", "at"), rows(__file__, "cases.yaml", "mlflow"))
def test_the_run_in_mlflow_is_that_of_the_jobs_own_server(
    server: str, line: str, at: str | None
) -> None:
    log = StepLog(BEGAN, {})
    for text in (line, f"View experiment at: {MLFLOW}/#/experiments/1"):
        log.add(LogLine("job/algo-1-1795489693", BEGAN, text))
    look = look_at()
    look.place.strategy = "torchrun"  # type: ignore[misc]
    job = {"Environment": {"MLFLOW_TRACKING_URI": server} if server else {}}
    told = training_of(look, job, {"Train": log})
    assert told is not None
    assert told["mlflow"] == (None if at is None else f"{MLFLOW}{at}")
