"""Every wrong way to write a step's arguments is found before AWS finds it, with step and path."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.launch.errors import ArgumentsError
from shoal.pipelines.validation import shapes
from tests.pipelines.inputs import definition, set_at
from tests.tables import table


def mistakes_with(**changes: Any) -> list[str]:
    """Return the mistakes in the golden definition with other values at these paths."""
    document = definition()
    for path, value in changes.items():
        set_at(document, path, value)
    return list(shapes.mistakes_in(document))


@pytest.mark.parametrize("row", table(__file__, "shapes.yaml"), ids=lambda row: row["line"])
def test_a_spoilt_argument_is_found_at_its_path(row: dict[str, Any]) -> None:
    (mistake,) = mistakes_with(**{row["at"]: row["is"]})
    assert row["line"] in mistake


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        (f"Train.HyperParameters.{'x' * 257}", "1", "257 characters; allowed are 0 to 256"),
        ("Train.HyperParameters", {f"h{n}": "1" for n in range(101)}, "entries; allowed are 0 to"),
        ("/Metadata", {"padding": "x" * shapes.MAX_DEFINITION}, "SageMaker allows 1048576"),
    ],
)
def test_what_is_too_long_is_told_with_the_limit(path: str, value: Any, line: str) -> None:
    (mistake,) = mistakes_with(**{path: value})
    assert line in mistake


def test_expressions_and_cdk_tokens_stand_for_anything() -> None:
    token = "arn:${Token[AWS.Partition.3]}:iam::${Token[AWS.AccountId.0]}:role/x"
    condition = {"Get": "Steps.Evaluate.StoppingCondition"}
    assert mistakes_with(**{"Train.RoleArn": token, "Train.StoppingCondition": condition}) == []


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("ModelArtifacts.S3ModelArtifacts", ""),
        ("FinalMetricDataList['loss'].Value", ""),
        ("FinalMetricDataList[0].Value", ""),
        ("HyperParameters.epochs", ""),
        ("HyperParameters['epochs']", ""),
        ("ModelArtifacts.S3ModelArtifact", "answers no S3ModelArtifact; it has S3ModelArtifacts"),
        ("ModelArtifact", "DescribeTrainingJob answers no ModelArtifact; it has"),
        ("TrainingJobName.More", "answers a string before .More"),
        ("FinalMetricDataList.Value", "answers a list before .Value"),
        ("FinalMetricDataList[0].Values", "answers no Values; it has Value"),
        ("TrainingJobName[", "answers nothing at ["),
    ],
)
def test_a_property_is_one_that_the_job_has(path: str, line: str) -> None:
    value = {"Std:Join": {"On": "/", "Values": ["s3:/", {"Get": f"Steps.Train.{path}"}]}}
    mistakes = mistakes_with(**{"Evaluate.Environment": {"FROM": value}})
    assert len(mistakes) == bool(line)
    assert line in "".join(mistakes)


def test_checking_raises_all_mistakes_at_once() -> None:
    document = definition()
    for step in ("Train", "Evaluate"):
        set_at(document, f"{step}.RoleArn", None)
    with pytest.raises(ArgumentsError) as caught:
        shapes.check(document)
    assert len(caught.value.mistakes) == 2
