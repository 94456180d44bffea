"""The function that schedules call: it starts one execution for each due time, and none while one runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.emulator.control.account import Account, allow, eventually, running
from tests.functions.invocation import Outcome, invoke

PIPELINE = "shoal-mnist-dev"
PARAMETERS = [{"Name": "Epochs", "Type": "Integer", "DefaultValue": 1}, {"Name": "Seconds", "Type": "String", "DefaultValue": "0"}]
SLEEP = "import time\ndef handler(event, context):\n    time.sleep(float(event['seconds']))\n    return {}\n"


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """An account with a pipeline that does nothing, for as many seconds as it is told."""
    with running(tmp_path_factory.mktemp("emulator")) as found:
        make_pipeline(found)
        yield found


def make_pipeline(account: Account) -> None:
    name = account.function(SLEEP)
    role = account.role({"Service": "sagemaker.amazonaws.com"})
    policy = json.dumps(allow("lambda:InvokeFunction"))
    account.client("iam").put_role_policy(RoleName=role.rpartition("/")[2], PolicyName="p", PolicyDocument=policy)
    step = {
        "Name": "Sleep",
        "Type": "Lambda",
        "FunctionArn": f"arn:aws:lambda:us-east-1:111122223333:function:{name}",
        "Arguments": {"seconds": {"Get": "Parameters.Seconds"}},
        "OutputParameters": [],
    }
    definition = {"Version": "2020-12-01", "Parameters": PARAMETERS, "Steps": [step]}
    account.client("sagemaker").create_pipeline(
        PipelineName=PIPELINE, PipelineDefinition=json.dumps(definition), RoleArn=role, ClientRequestToken="x" * 32
    )


def executions(account: Account, *statuses: str) -> list[dict[str, Any]]:
    found = account.client("sagemaker").list_pipeline_executions(PipelineName=PIPELINE)["PipelineExecutionSummaries"]
    return [each for each in found if not statuses or each["PipelineExecutionStatus"] in statuses]


def deliver(account: Account, scheduled_time: str, **parameters: str) -> Outcome:
    """One call as Scheduler makes it, once nothing runs any more."""
    event = {
        "schedule": "nightly",
        "schedule_arn": "arn:aws:scheduler:us-east-1:111122223333:schedule/shoal-mnist-dev/nightly",
        "scheduled_time": scheduled_time,
        "parameters": parameters,
    }
    return invoke("start", event, endpoint_url=account.endpoint, environment={"PIPELINE_NAME": PIPELINE})


def ended(account: Account) -> None:
    assert eventually(lambda: not executions(account, "Executing", "Stopping"))


def test_a_due_time_starts_an_execution_with_the_schedules_parameters(account: Account) -> None:
    result = deliver(account, "2026-11-20T03:00:00Z", Epochs="3").result
    given = account.client("sagemaker").list_pipeline_parameters_for_execution(PipelineExecutionArn=result["execution"])
    assert result["status"] == "started"
    assert {"Name": "Epochs", "Value": "3"} in given["PipelineParameters"]
    ended(account)


def test_the_execution_says_by_which_schedule_and_for_when(account: Account) -> None:
    arn = deliver(account, "2026-11-21T03:00:00Z").result["execution"]
    found = account.client("sagemaker").describe_pipeline_execution(PipelineExecutionArn=arn)
    assert found["PipelineExecutionDisplayName"] == "nightly-20261121T030000Z"
    assert found["PipelineExecutionDescription"] == "Started by the schedule nightly, due at 2026-11-21T03:00:00Z"
    ended(account)


def test_a_running_execution_is_not_overtaken(account: Account) -> None:
    first = deliver(account, "2026-11-22T03:00:00Z", Seconds="5").result["execution"]
    assert deliver(account, "2026-11-23T03:00:00Z").result == {"status": "overlap", "execution": first}
    assert len(executions(account, "Executing")) == 1
    ended(account)


def test_a_second_delivery_of_one_time_starts_nothing_even_when_the_first_has_ended(account: Account) -> None:
    first = deliver(account, "2026-11-24T03:00:00Z").result
    ended(account)
    before = len(executions(account))
    assert deliver(account, "2026-11-24T03:00:00Z").result == {"status": "duplicate", "execution": first["execution"]}
    assert len(executions(account)) == before


def test_every_delivery_is_measured_with_all_three_outcomes(account: Account) -> None:
    deliver(account, "2026-11-25T03:00:00Z")
    dimensions = [{"Name": "Pipeline", "Value": PIPELINE}, {"Name": "Schedule", "Value": "nightly"}]
    found = account.client("cloudwatch").list_metrics(Namespace="Shoal", Dimensions=dimensions)["Metrics"]
    assert {metric["MetricName"] for metric in found} == {"ScheduledStarts", "SkippedOverlap", "SkippedDuplicate"}
    ended(account)


def test_what_the_pipeline_refuses_is_an_error_that_lambda_tries_again(account: Account) -> None:
    outcome = deliver(account, "2026-11-26T03:00:00Z", Nothing="1")
    assert outcome.result is None
    assert "ValidationException" in outcome.error
