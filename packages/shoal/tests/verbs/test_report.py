"""The results of a run."""

from __future__ import annotations

from datetime import UTC, datetime

from shoal.aws.execution import Execution, Step
from shoal.page.readings.report import answers_of

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
ARN = "arn:aws:sagemaker:us-east-1:111122223333:"
ANSWERS = '[{"request": "7.json", "passed": false, "shown": {"digit": 1, "probability": 0.6}}]'
JOB = {"TrainingJob": {"Arn": f"{ARN}training-job/t"}}
TRAIN = Step("Train", "Training", "Succeeded", BEGAN, BEGAN, metadata=JOB)
OUTPUTS = {"OutputParameters": [{"Name": "answers", "Value": ANSWERS}]}
SMOKE = Step("SmokeTest", "Lambda", "Failed", BEGAN, BEGAN, "no", {"Lambda": OUTPUTS})


def execution(*steps: Step) -> Execution:
    return Execution(f"{ARN}pipeline/p/execution/abc", "Succeeded", "", BEGAN, steps)


def test_answers_come_from_the_smoke_tests_output() -> None:
    assert answers_of(execution(SMOKE)) == [
        {"request": "7.json", "passed": False, "shown": {"digit": 1, "probability": 0.6}}
    ]


def test_without_a_smoke_test_there_are_no_answers() -> None:
    assert answers_of(execution(TRAIN)) == []
