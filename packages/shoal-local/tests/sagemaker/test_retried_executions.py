"""RetryPipelineExecution runs what failed or was stopped, and keeps what succeeded."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.sagemaker_account import Account
from tests.sagemaker.questions import Questions, size_of

LIMIT = {"Name": "Limit", "Type": "Integer", "DefaultValue": 9}


@pytest.fixture(scope="module")
def questions(account: Account) -> Questions:
    return Questions.of(account, "retried")


@pytest.fixture(scope="module")
def pipeline(account: Account, questions: Questions) -> str:
    """First, whose answer must be small; then Second, which is told that answer."""
    second = questions.step("Second", Arguments={"first": size_of("First")})
    condition = {
        "Type": "LessThan",
        "LeftValue": size_of("First"),
        "RightValue": {"Get": "Parameters.Limit"},
    }
    too_large = {"Name": "No", "Type": "Fail", "Arguments": {"ErrorMessage": "too large"}}
    gate = {
        "Name": "Gate",
        "Type": "Condition",
        "Arguments": {"Conditions": [condition], "IfSteps": [second], "ElseSteps": [too_large]},
    }
    account.deploy_pipeline("retried", [questions.step("First"), gate], Parameters=[LIMIT])
    return "retried"


def begun(account: Account, pipeline: str, **start: Any) -> str:
    answer = account.sagemaker.start_pipeline_execution(PipelineName=pipeline, **start)
    return str(answer["PipelineExecutionArn"])


def retry(account: Account, arn: str, **request: Any) -> None:
    answer = account.sagemaker.retry_pipeline_execution(PipelineExecutionArn=arn, **request)
    assert answer["PipelineExecutionArn"] == arn


def test_a_retry_keeps_what_succeeded_and_runs_what_failed(
    account: Account, pipeline: str, questions: Questions
) -> None:
    arn = begun(account, pipeline)
    assert questions.answer(4) == {"step": "First"}
    assert questions.answer(None) == {"step": "Second", "first": 4}
    failed = account.execution_ended(arn)
    first = account.steps(failed)["First"]
    retry(account, arn, ParallelismConfiguration={"MaxParallelExecutionSteps": 1})
    assert questions.answer(5) == {"step": "Second", "first": 4}
    ended = account.execution_ended(arn)
    assert (failed["PipelineExecutionStatus"], ended["PipelineExecutionStatus"]) == (
        "Failed",
        "Succeeded",
    )
    assert "FailureReason" not in ended
    assert ended["ParallelismConfiguration"] == {"MaxParallelExecutionSteps": 1}
    steps = account.steps(ended)
    assert list(steps) == ["First", "Gate", "Second"]
    assert steps["First"] == first
    assert "FailureReason" not in steps["Second"]


def test_a_retry_has_the_parameters_and_the_definition_of_the_start(
    account: Account, pipeline: str, questions: Questions
) -> None:
    """So a condition that succeeded decides the same, and its Fail step fails again."""
    arn = begun(account, pipeline, PipelineParameters=[{"Name": "Limit", "Value": "2"}])
    questions.answer(4)
    account.execution_ended(arn)
    retry(account, arn)
    ended = account.execution_ended(arn)
    assert ended["PipelineExecutionStatus"] == "Failed"
    assert account.steps(ended)["No"]["FailureReason"] == "too large"


def test_a_stopped_execution_goes_on_with_the_step_that_was_stopped(
    account: Account, pipeline: str, questions: Questions
) -> None:
    arn = begun(account, pipeline)
    questions.answer(4)
    first_try = questions.next()
    account.sagemaker.stop_pipeline_execution(PipelineExecutionArn=arn)
    assert questions.next()["status"] == "Stopping"
    account.sagemaker.send_pipeline_execution_step_failure(CallbackToken=first_try["token"])
    assert account.execution_ended(arn)["PipelineExecutionStatus"] == "Stopped"
    retry(account, arn)
    second_try = questions.next()
    assert second_try["token"] != first_try["token"]
    account.sagemaker.stop_pipeline_execution(PipelineExecutionArn=arn)
    assert questions.next()["token"] == second_try["token"]  # the retry's step is told to stop
    account.sagemaker.send_pipeline_execution_step_failure(CallbackToken=second_try["token"])
    assert account.execution_ended(arn)["PipelineExecutionStatus"] == "Stopped"


def test_a_token_retries_once_and_what_runs_or_succeeded_is_not_retried(
    account: Account, pipeline: str, questions: Questions
) -> None:
    arn = begun(account, pipeline)
    with pytest.raises(ClientError, match=r"ConflictException.*has status Executing; only"):
        retry(account, arn)
    questions.answer(None)
    account.execution_ended(arn)
    for _ in range(2):  # the second is the first one's answer: nothing fails and nothing starts
        retry(account, arn, ClientRequestToken="t" * 32)
    questions.answer(4)
    questions.answer(4)
    account.execution_ended(arn)
    with pytest.raises(ClientError, match=r"ConflictException.*has status Succeeded; only"):
        retry(account, arn)


def test_an_execution_that_is_not_there_is_not_found(account: Account, pipeline: str) -> None:
    arn = account.sagemaker.describe_pipeline(PipelineName=pipeline)["PipelineArn"]
    with pytest.raises(ClientError, match="ResourceNotFound"):
        retry(account, f"{arn}/execution/{'0' * 12}")
