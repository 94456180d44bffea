"""The limits of a definition's steps, which the pipeline's role allows."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.pipelines.limits import Limits, limits
from tests.pipelines.inputs import definition


def _training(name: str, seconds: Any, instance_type: Any, **output: str) -> dict[str, Any]:
    arguments = {
        "ResourceConfig": {"InstanceType": instance_type},
        "StoppingCondition": {"MaxRuntimeInSeconds": seconds} if seconds else {},
        "OutputDataConfig": output,
    }
    return {"Name": name, "Type": "Training", "Arguments": arguments}


def _of(*steps: dict[str, Any]) -> Limits | None:
    parameters = [
        {"Name": "Kind", "Type": "String", "DefaultValue": "ml.p4d.24xlarge"},
        {"Name": "Other", "Type": "String"},
    ]
    return limits({"Parameters": parameters, "Steps": list(steps)}, "Training")


def test_the_golden_environments_training_asks_for_what_its_file_says() -> None:
    assert limits(definition(), "Training") == Limits(
        ("ml.p4d.24xlarge",), 3600, encrypts_output=True
    )


def test_a_volume_key_counts_wherever_the_step_type_has_it() -> None:
    allowed = [limits(definition(), kind) for kind in ("Processing", "EndpointConfig")]
    assert [each.encrypts_volumes for each in allowed if each] == [True, True]


def test_a_definition_without_such_steps_has_no_limits() -> None:
    assert _of() is None


def test_the_longest_time_and_every_type_count_those_of_branches_too() -> None:
    inner = _training("B", 900, "ml.g5.xlarge", KmsKeyId="key")
    choice = {
        "Name": "Choice",
        "Type": "Condition",
        "Arguments": {"Conditions": [], "IfSteps": [], "ElseSteps": [inner]},
    }
    allowed = _of(_training("A", 600, {"Get": "Parameters.Kind"}, KmsKeyId="key"), choice)
    assert allowed == Limits(("ml.g5.xlarge", "ml.p4d.24xlarge"), 900, encrypts_output=True)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (
            _training("A", None, "ml.g5.xlarge", KmsKeyId="key"),
            Limits(("ml.g5.xlarge",), None, encrypts_output=True),
        ),
        (_training("A", 600, "ml.g5.xlarge"), Limits(("ml.g5.xlarge",), 600)),
        (
            _training("A", 600, {"Get": "Parameters.Other"}, KmsKeyId="key"),
            Limits((), 600, encrypts_output=True),
        ),
    ],
)
def test_what_a_step_leaves_open_is_no_limit(step: dict[str, Any], expected: Limits) -> None:
    assert _of(step) == expected
