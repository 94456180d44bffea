"""Executions under way: a Callback step sends a token to a queue and ends as the answer says;
orders that cross the start or the end of what they are about; everything ends, once.
"""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.sagemaker_account import ACCOUNT_ID, Account, shell_step, until
from local_kit.tables import rows, table

AWS_URL = f"https://sqs.us-east-1.amazonaws.com/{ACCOUNT_ID}/questions"
CASES = "cases.yaml"


def ask(url: str = AWS_URL) -> dict[str, Any]:
    return {**table(__file__, CASES)["ask"], "SqsQueueUrl": url}


@pytest.fixture(scope="module")
def queue(account: Account) -> str:
    return str(account.client("sqs").create_queue(QueueName="questions")["QueueUrl"])


@pytest.fixture(scope="module")
def asking(account: Account, queue: str) -> str:
    assert queue.endswith(f"/{ACCOUNT_ID}/questions")
    account.deploy_pipeline("asking", [ask(), table(__file__, CASES)["fail_above"]])
    return "asking"


def message(account: Account, queue: str) -> dict[str, Any]:
    """Return the next message, once it is there."""
    got = account.client("sqs").receive_message(QueueUrl=queue, WaitTimeSeconds=20)
    (received,) = got["Messages"]
    account.client("sqs").delete_message(QueueUrl=queue, ReceiptHandle=received["ReceiptHandle"])
    body: dict[str, Any] = json.loads(received["Body"])
    return body


def outputs(size: str) -> list[dict[str, str]]:
    return [{"Name": "size", "Value": size}]


def test_the_message_has_token_execution_and_arguments(
    account: Account, asking: str, queue: str
) -> None:
    arn = account.begin(asking)
    body = message(account, queue)
    token = body.pop("token")
    arguments = {"execution": arn.rpartition("/")[2], "what": "size"}
    assert body == {
        "pipelineExecutionArn": arn,
        "arguments": arguments,
        "status": "Executing",
    }
    execution = {"PipelineExecutionArn": arn}
    assert account.steps(execution)["Ask"]["StepStatus"] == "Executing"
    account.sagemaker.send_pipeline_execution_step_success(
        CallbackToken=token, OutputParameters=outputs("2")
    )
    assert account.execution_ended(arn)["PipelineExecutionStatus"] == "Succeeded"
    metadata = account.steps(execution)["Ask"]["Metadata"]["Callback"]
    where = {"CallbackToken": token, "SqsQueueUrl": AWS_URL}
    assert metadata == {**where, "OutputParameters": outputs("2")}


@pytest.mark.parametrize(("answer", "step", "reason"), rows(__file__, CASES, "answers"))
def test_the_answer_decides_which_step_fails_and_why(
    account: Account, asking: str, queue: str, answer: dict[str, Any], step: str, reason: str
) -> None:
    arn, client, token = account.begin(asking), account.sagemaker, message(account, queue)["token"]
    send = client.send_pipeline_execution_step_success
    if "FailureReason" in answer:
        send = client.send_pipeline_execution_step_failure
    send(CallbackToken=token, **answer)
    execution = account.execution_ended(arn)
    assert execution["PipelineExecutionStatus"] == "Failed"
    assert account.steps(execution)[step]["FailureReason"] == reason


def test_a_stop_is_told_to_the_queue_and_waits_for_the_answer(
    account: Account, asking: str, queue: str
) -> None:
    arn = account.begin(asking)
    token = message(account, queue)["token"]
    account.sagemaker.stop_pipeline_execution(PipelineExecutionArn=arn)
    told = message(account, queue)
    assert (told["token"], told["status"]) == (token, "Stopping")
    described = account.sagemaker.describe_pipeline_execution(PipelineExecutionArn=arn)
    assert described["PipelineExecutionStatus"] == "Stopping"
    account.sagemaker.send_pipeline_execution_step_failure(CallbackToken=token)
    assert account.execution_ended(arn)["PipelineExecutionStatus"] == "Stopped"


def test_a_token_is_answered_once(account: Account, asking: str, queue: str) -> None:
    arn = account.begin(asking)
    token, client = message(account, queue)["token"], account.sagemaker
    again = {"CallbackToken": token, "ClientRequestToken": "x" * 32}
    for _ in range(2):  # the same request may come twice
        client.send_pipeline_execution_step_success(**again, OutputParameters=outputs("1"))
    with pytest.raises(ClientError, match=r"ConflictException.*has been answered already"):
        client.send_pipeline_execution_step_failure(CallbackToken=token)
    account.execution_ended(arn)


def test_an_unknown_token_is_not_found(account: Account) -> None:
    with pytest.raises(ClientError, match=r"ResourceNotFound.*nobodyever does not exist"):
        account.sagemaker.send_pipeline_execution_step_success(CallbackToken="nobodyever")


def test_a_queue_that_is_not_there_fails_the_step(account: Account) -> None:
    account.deploy_pipeline("asking-nobody", [ask(AWS_URL.replace("questions", "gone"))])
    reason = account.steps(account.execute("asking-nobody"))["Ask"]["FailureReason"]
    assert reason.startswith("ClientError: Failed to invoke sqs:SendMessage. Error Details: ")


STEPS = [shell_step("First", "sleep 600"), shell_step("Beside", "sleep 600")]


def code_of(call: Callable[[], Any]) -> str:
    """Return the code with which a call is refused, or "" if it is not."""
    try:
        call()
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


def at_once(calls: list[Callable[[], Any]]) -> list[str]:
    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(code_of, calls))


@pytest.mark.parametrize(
    ("moment", "is_there"),
    [
        ("started", lambda _steps: True),
        ("a-step", lambda steps: len(steps) >= 1),
        ("two-steps", lambda steps: len(steps) == 2),
        ("a-job", lambda steps: any("Metadata" in each for each in steps.values())),
        ("two-jobs", lambda steps: sum("Metadata" in each for each in steps.values()) == 2),
    ],
)
def test_an_execution_that_is_stopped_at_any_moment_leaves_no_job(
    account: Account, moment: str, is_there: Callable[[dict[str, Any]], bool]
) -> None:
    """It is told four times at once, and each time is taken or told that it has ended."""
    name, client = f"race-{moment}", account.sagemaker
    account.deploy_pipeline(name, STEPS)
    arn = account.begin(name)
    until(lambda: account.steps({"PipelineExecutionArn": arn}), is_there)
    stop = partial(client.stop_pipeline_execution, PipelineExecutionArn=arn)
    assert set(at_once([stop] * 4)) <= {"", "ConflictException"}
    execution = account.execution_ended(arn)
    assert execution["PipelineExecutionStatus"] == "Stopped"
    steps = account.steps(execution)
    assert {each["StepStatus"] for each in steps.values()} <= {"Stopped"}
    contains = {"NameContains": arn.rpartition("/")[2]}
    jobs = client.list_processing_jobs(**contains)["ProcessingJobSummaries"]
    assert {each["ProcessingJobStatus"] for each in jobs} <= {"Stopped"}
    assert len(jobs) == sum("Metadata" in each for each in steps.values())
    assert code_of(stop) == "ConflictException"
    client.delete_pipeline(PipelineName=name)


def test_a_pipeline_is_started_and_deleted_at_once(account: Account) -> None:
    """Either it runs, or it is gone: no execution is left without a pipeline."""
    client = account.sagemaker
    for number in range(6):
        name = f"race-deleted-{number}"
        account.deploy_pipeline(name, [shell_step("Short", "true")])
        start = partial(client.start_pipeline_execution, PipelineName=name)
        delete = partial(client.delete_pipeline, PipelineName=name)
        started, deleted = at_once([start, delete])
        assert (started, deleted) in {
            ("", ""),
            ("", "ConflictException"),
            ("ResourceNotFound", ""),
        }
        if deleted:
            (execution,) = client.list_pipeline_executions(PipelineName=name)[
                "PipelineExecutionSummaries"
            ]
            ended = account.execution_ended(execution["PipelineExecutionArn"])
            assert ended["PipelineExecutionStatus"] == "Succeeded"


def test_a_job_that_is_stopped_while_it_starts_and_again_ends_once(account: Account) -> None:
    client = account.sagemaker
    for number in range(4):
        name = f"race-job-{number}"
        client.create_training_job(**account.training(name, hyperparameters={"do": "wait"}))
        stop = partial(client.stop_training_job, TrainingJobName=name)
        assert set(at_once([stop] * 3)) <= {"", "ValidationException"}
        job = account.training_ended(name)
        assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "Stopped")
        statuses = [each["Status"] for each in job["SecondaryStatusTransitions"]]
        assert statuses.count("Stopped") == 1
        assert statuses[-1] == "Stopped"
        assert code_of(stop) == "ValidationException"
