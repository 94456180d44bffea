"""Orders that cross the start or the end of what they are about: everything ends, once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.sagemaker_account import Account, shell_step, until

STEPS = [shell_step("First", "sleep 600"), shell_step("Beside", "sleep 600")]
ENDED = {"Succeeded", "Failed", "Stopped"}


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
