"""What the three roles of schedules must not do, asked of the evaluator: each question is an
allowed one with one change.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from shoal_local.control.authorization.evaluator import Evaluator
from shoal_local.control.http.iam_request import Question
from tests.identity.cases import Case, arn
from tests.identity.roles import Roles
from tests.identity.templates import Templates

PREFIX = "shoal-mnist-dev-us-east-1-"


START = Question("sagemaker:StartPipelineExecution", arn("sagemaker", "pipeline/shoal-mnist-dev"))
LOOK = replace(START, action="sagemaker:ListPipelineExecutions")
STOP = Question("sagemaker:StopPipelineExecution", f"{START.resource}/execution/abcdefghijkl")
MEASURE = Question("cloudwatch:PutMetricData", "*", {"cloudwatch:namespace": "Shoal"})
SEE = Question("scheduler:GetSchedule", arn("scheduler", "schedule/shoal-mnist-dev/weekly"))
READ = Question("cloudwatch:GetMetricData", "*")
CALL = Question("lambda:InvokeFunction", arn("lambda", "function:shoal-mnist-dev-start"))

CASES = {
    "start another pipeline": Case(
        "start", START, resource=arn("sagemaker", "pipeline/shoal-mnist-prod")
    ),
    "stop another pipeline's execution": Case(
        "start", STOP, resource=arn("sagemaker", "pipeline/shoal-mnist-prod/execution/abc")
    ),
    "change the pipeline": Case("start", START, action="sagemaker:UpdatePipeline"),
    "look at another pipeline": Case(
        "start", LOOK, resource=arn("sagemaker", "pipeline/shoal-mnist-dev-2")
    ),
    "start a training": Case(
        "start",
        START,
        instead=Question("sagemaker:CreateTrainingJob", arn("sagemaker", "training-job/x")),
    ),
    "hand over a role": Case(
        "start",
        START,
        instead=Question("iam:PassRole", f"arn:aws:iam::111122223333:role/{PREFIX}training"),
    ),
    "measure in AWS's name": Case(
        "start", MEASURE, context={"cloudwatch:namespace": "AWS/Scheduler"}
    ),
    "look at another environment's schedule": Case(
        "overdue", SEE, resource=arn("scheduler", "schedule/shoal-mnist-prod/weekly")
    ),
    "change a schedule": Case("overdue", SEE, action="scheduler:UpdateSchedule"),
    "start what is overdue": Case("overdue", SEE, instead=START),
    "silence an alarm": Case(
        "overdue",
        READ,
        instead=Question(
            "cloudwatch:DisableAlarmActions", arn("cloudwatch", "alarm:shoal-mnist-dev-x")
        ),
    ),
    "measure for AWS": Case("overdue", MEASURE, context={"cloudwatch:namespace": "AWS/Scheduler"}),
    "start without looking": Case("scheduler", CALL, instead=START),
    "call another function": Case(
        "scheduler", CALL, resource=arn("lambda", "function:shoal-mnist-dev-teardown")
    ),
    "change the function": Case("scheduler", CALL, action="lambda:UpdateFunctionCode"),
    "write into another queue": Case(
        "scheduler",
        CALL,
        instead=Question(
            "sqs:SendMessage", arn("sqs", "shoal-mnist-dev-pipeline-TeardownGuardQueue")
        ),
    ),
}


QUEUE = arn("sqs", "SchedulesDeadLettersE738B711")


def log_of(function: str) -> list[Question]:
    stream = arn("logs", f"log-group:/aws/lambda/shoal-mnist-dev-{function}:log-stream:1")
    return [Question("logs:CreateLogStream", stream), Question("logs:PutLogEvents", stream)]


NEEDED = {
    "scheduler": {"CallStarter": [CALL], "LeaveDeadLetters": [Question("sqs:SendMessage", QUEUE)]},
    "start": {
        "StartOneAtATime": [START, LOOK],
        "StopTheSecondOfTwo": [STOP],
        "Measure": [MEASURE],
        "WriteOwnLog": log_of("start"),
    },
    "overdue": {
        "SeeSchedules": [SEE],
        "SeeSigns": [READ],
        "Measure": [MEASURE],
        "WriteOwnLog": log_of("overdue"),
    },
}
"""Actor -> statement -> what it is for. packages/shoal/tests/end_to_end/test_schedules.py,
test_overdue.py see it done under the policies, not the stopping.
"""


@pytest.fixture(scope="module")
def roles(evaluator: Evaluator, templates: dict[str, Templates]) -> Roles:
    everything = templates["everything"]
    return Roles(evaluator, everything.identity_policies(), everything.key_policies())


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_question_that_is_allowed_is_refused_with_one_thing_changed(
    roles: Roles, case: Case
) -> None:
    assert case.decided(roles, PREFIX + case.actor) == [True, False]


@pytest.mark.parametrize("actor", NEEDED)
def test_every_statement_is_needed(roles: Roles, actor: str) -> None:
    assert {sid for sid, _ in roles.statements(PREFIX + actor)} == set(NEEDED[actor])
    for sid, questions in NEEDED[actor].items():
        for question in questions:
            decided = [
                roles.decide(PREFIX + actor, question, without).allowed for without in ("", sid)
            ]
            assert decided == [True, False], question
