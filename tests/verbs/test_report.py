"""The results of a run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from shoal.verbs.execution import Execution, Step
from shoal.verbs.metrics import Parts, Position, Progress, Reading
from shoal.verbs.report import (
    Course,
    EndpointAnswer,
    answers_of,
    courses_of,
    curves,
    step_rows,
)

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
ARN = "arn:aws:sagemaker:us-east-1:111122223333:"
ANSWERS = '[{"request": "7.json", "passed": false, "shown": {"digit": 1, "probability": 0.6}}]'
TRAIN = Step(
    "Train",
    "Training",
    "Succeeded",
    BEGAN,
    BEGAN + timedelta(seconds=9.5),
    metadata={"TrainingJob": {"Arn": f"{ARN}training-job/t"}},
)
SMOKE = Step(
    "SmokeTest",
    "Lambda",
    "Failed",
    BEGAN,
    BEGAN + timedelta(seconds=1),
    "no",
    metadata={
        "Lambda": {"Arn": f"{ARN}x", "OutputParameters": [{"Name": "answers", "Value": ANSWERS}]}
    },
)
METRICS = (
    Parts(1, (("replicas", 2),)),
    Progress((Reading("train:rate", 100.0, "rows/s"),), Position(1, 50, 100), 1.0, 2),
    Progress((Reading("train:rate", 300.0, "rows/s"),), Position(1, 100, 100), 2.0, 2),
    Progress((Reading("test:rmse", 0.9),), Position(1), 2.5),
)


def execution(*steps: Step) -> Execution:
    return Execution(f"{ARN}pipeline/p/execution/abc", "Succeeded", "", BEGAN, steps)


def test_rows_have_name_type_status_and_seconds_and_the_reason_of_a_failure() -> None:
    assert step_rows(execution(TRAIN, SMOKE)) == [
        {"name": "Train", "type": "Training", "status": "Succeeded", "seconds": 9.5},
        {
            "name": "SmokeTest",
            "type": "Lambda",
            "status": "Failed",
            "seconds": 1.0,
            "failure_reason": "no",
        },
    ]


def test_answers_come_from_the_smoke_tests_output() -> None:
    assert answers_of(execution(SMOKE)) == (
        EndpointAnswer("7.json", False, {"digit": 1, "probability": 0.6}),
    )


def test_without_a_smoke_test_there_are_no_answers() -> None:
    assert answers_of(execution(TRAIN)) == ()


def test_the_course_of_a_number_is_its_last_value_and_its_median() -> None:
    assert courses_of(METRICS) == (
        Course("train:rate", "rows/s", 300.0, 200.0),
        Course("test:rmse", "", 0.9, 0.9),
    )
    assert courses_of(()) == ()


def test_the_curves_put_the_end_of_an_epoch_at_its_last_step() -> None:
    assert curves(METRICS) == {
        "train:rate (rows/s)": [(50, 100.0), (100, 300.0)],
        "test:rmse": [(100, 0.9)],
    }


def test_without_a_place_the_lines_count() -> None:
    lines = [Progress((Reading("loss", value),)) for value in (0.5, 0.25)]
    assert curves(lines) == {"loss": [(1, 0.5), (2, 0.25)]}
