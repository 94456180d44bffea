"""The function that schedules call: it starts one execution for each due time, and none while one
runs.
"""

import json
import logging
import runpy
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from local_kit.control import Account, allow, eventually, running
from tests.functions.invocation import FUNCTIONS, Outcome, invoke

PIPELINE = "shoal-mnist-dev"
PARAMETERS = [
    {"Name": "Epochs", "Type": "Integer", "DefaultValue": 1},
    {"Name": "Seconds", "Type": "String", "DefaultValue": "0"},
    {"Name": "Until", "Type": "String", "DefaultValue": "/"},
]
WAIT = """
import os, time
def handler(event, context):
    time.sleep(float(event["seconds"]))
    while not os.path.exists(event["until"]):
        time.sleep(0.05)
    return {}
"""


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """An account with a pipeline that waits for seconds and for a file, as its parameters say."""
    with running(tmp_path_factory.mktemp("emulator")) as emulator:
        make_pipeline(emulator)
        yield emulator


def make_pipeline(account: Account) -> None:
    name = account.function(WAIT)
    role = account.role({"Service": "sagemaker.amazonaws.com"}, allow("lambda:InvokeFunction"))
    step = {
        "Name": "Wait",
        "Type": "Lambda",
        "FunctionArn": f"arn:aws:lambda:us-east-1:111122223333:function:{name}",
        "Arguments": {
            "seconds": {"Get": "Parameters.Seconds"},
            "until": {"Get": "Parameters.Until"},
        },
        "OutputParameters": [],
    }
    definition = {"Version": "2020-12-01", "Parameters": PARAMETERS, "Steps": [step]}
    account.client("sagemaker").create_pipeline(
        PipelineName=PIPELINE,
        PipelineDefinition=json.dumps(definition),
        RoleArn=role,
        ClientRequestToken="x" * 32,
    )


def executions(account: Account, *statuses: str) -> list[dict[str, Any]]:
    summaries = account.client("sagemaker").list_pipeline_executions(PipelineName=PIPELINE)[
        "PipelineExecutionSummaries"
    ]
    return [
        each for each in summaries if not statuses or each["PipelineExecutionStatus"] in statuses
    ]


def deliver(
    account: Account, scheduled_time: str, schedule: str = "nightly", **parameters: str
) -> Outcome:
    """Call the function once, as Scheduler does."""
    delivery = event(schedule, scheduled_time, parameters)
    return invoke(
        "start",
        delivery,
        endpoint_url=account.endpoint,
        environment={"PIPELINE_NAME": PIPELINE},
    )


def event(schedule: str, scheduled_time: str, parameters: dict[str, str]) -> dict[str, Any]:
    arn = f"arn:aws:scheduler:us-east-1:111122223333:schedule/{PIPELINE}/{schedule}"
    return {
        "schedule": schedule,
        "schedule_arn": arn,
        "scheduled_time": scheduled_time,
        "parameters": parameters,
    }


class BlindAtFirst:
    """A client whose first list of executions is empty."""

    def __init__(self, client: Any) -> None:
        self._client, self._looks = client, 0

    def get_paginator(self, operation: str) -> Any:
        self._looks += 1
        return self if self._looks == 1 else self._client.get_paginator(operation)

    def paginate(self, **_: Any) -> list[dict[str, Any]]:
        return [{"PipelineExecutionSummaries": []}]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def ended(account: Account) -> None:
    assert eventually(lambda: not executions(account, "Executing", "Stopping"))


def test_a_due_time_starts_an_execution_with_the_schedules_parameters_and_name(
    account: Account,
) -> None:
    result = deliver(account, "2026-11-20T03:00:00Z", Epochs="3").result
    assert result["status"] == "started"
    sagemaker, execution = (
        account.client("sagemaker"),
        {"PipelineExecutionArn": result["execution"]},
    )
    given = sagemaker.list_pipeline_parameters_for_execution(**execution)["PipelineParameters"]
    assert {"Name": "Epochs", "Value": "3"} in given
    described = sagemaker.describe_pipeline_execution(**execution)
    assert described["PipelineExecutionDisplayName"] == "nightly-20261120T030000Z"
    says = "Started by the schedule nightly, due at 2026-11-20T03:00:00Z"
    assert described["PipelineExecutionDescription"] == says
    ended(account)


@pytest.fixture
def release(account: Account, tmp_path: Path) -> Iterator[Path]:
    """The file for which executions wait; they end after the test."""
    yield tmp_path / "release"
    (tmp_path / "release").touch()
    ended(account)


def test_a_running_execution_is_not_overtaken(account: Account, release: Path) -> None:
    first = deliver(account, "2026-11-22T03:00:00Z", Until=str(release)).result["execution"]
    assert deliver(account, "2026-11-23T03:00:00Z").result == {
        "status": "overlap",
        "execution": first,
    }
    assert len(executions(account, "Executing")) == 1


@pytest.mark.parametrize("number", [2, pytest.param(20, marks=pytest.mark.nightly)])
def test_of_schedules_that_start_in_the_same_moment_one_goes_on(
    account: Account, release: Path, number: int
) -> None:
    """The quota of executions may refuse some of many; Lambda tries again."""
    due = f"2026-11-27T03:{number:02}:00Z"

    def outcome(schedule: str) -> dict[str, str]:
        until = str(release)
        tries = (deliver(account, due, schedule=schedule, Until=until).result for _ in range(3))
        return dict(next(filter(None, tries)))

    with ThreadPoolExecutor(number) as pool:
        outcomes = list(pool.map(outcome, [f"s{each}" for each in range(number)]))
    assert sum(each["status"] == "overlap" for each in outcomes) == number - 1
    assert eventually(lambda: len(executions(account, "Executing")) == 1)


def test_the_younger_of_two_that_nobody_saw_coming_is_stopped(
    account: Account, release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stretches the moment between looking and starting: the first look finds nothing."""
    first = deliver(account, "2026-11-28T03:00:00Z", Until=str(release)).result["execution"]
    monkeypatch.setenv("PIPELINE_NAME", PIPELINE)
    monkeypatch.syspath_prepend(FUNCTIONS / "start")
    monkeypatch.setattr(logging.root, "level", logging.root.level)  # the handler sets another
    handler = runpy.run_path(str(FUNCTIONS / "start" / "handler.py"))
    due = event("other", "2026-11-28T03:00:00Z", {"Until": str(release)})
    outcome = handler["start"](
        BlindAtFirst(account.client("sagemaker")), handler["of_schedule"](due)
    )
    assert (outcome.status, outcome.execution) == ("overlap", first)
    assert [each["PipelineExecutionArn"] for each in executions(account, "Executing")] == [first]


def test_a_delivery_that_is_cut_off_after_its_start_is_settled_by_the_next(
    account: Account, release: Path
) -> None:
    """Without that two would go on: the next try finds its own execution, and called it done."""
    due = "2026-11-29T03:00:00Z"
    first = deliver(account, due, Until=str(release)).result["execution"]
    account.client("sagemaker").start_pipeline_execution(
        PipelineName=PIPELINE,
        PipelineExecutionDisplayName="other-20261129T030000Z",
        PipelineParameters=[{"Name": "Until", "Value": str(release)}],
    )
    overlap = {"status": "overlap", "execution": first}
    assert deliver(account, due, schedule="other").result == overlap
    assert [each["PipelineExecutionArn"] for each in executions(account, "Executing")] == [first]
    assert deliver(account, due).result == {"status": "duplicate", "execution": first}


def test_a_second_delivery_of_one_time_starts_nothing_even_when_the_first_has_ended(
    account: Account,
) -> None:
    first = deliver(account, "2026-11-24T03:00:00Z").result
    ended(account)
    before = len(executions(account))
    assert deliver(account, "2026-11-24T03:00:00Z").result == {
        "status": "duplicate",
        "execution": first["execution"],
    }
    assert len(executions(account)) == before


def test_every_delivery_is_measured_with_all_three_outcomes(account: Account) -> None:
    deliver(account, "2026-11-25T03:00:00Z", schedule="measured")  # by no other test
    dimensions = [
        {"Name": "Pipeline", "Value": PIPELINE},
        {"Name": "Schedule", "Value": "measured"},
    ]
    metrics = account.client("cloudwatch").list_metrics(Namespace="Shoal", Dimensions=dimensions)[
        "Metrics"
    ]
    assert {metric["MetricName"] for metric in metrics} == {
        "ScheduledStarts",
        "SkippedOverlap",
        "SkippedDuplicate",
    }
    ended(account)


def test_what_the_pipeline_refuses_is_an_error_that_lambda_tries_again(account: Account) -> None:
    outcome = deliver(account, "2026-11-26T03:00:00Z", Nothing="1")
    assert outcome.result is None
    assert "ValidationException" in outcome.error
