"""The gates of an execution, as its definition has them."""

from __future__ import annotations

import io
import uuid
import zipfile
from pathlib import Path
from typing import Any

import pytest

from local_kit.control import trust
from shoal.aws.execution import Execution, Step
from shoal.aws.target import Target
from shoal.page.readings.report import GateResult, _compared, conditions, gates_of
from tests.functions.invocation import FUNCTIONS
from tests.pipelines.inputs import compared, definition, steps_by_name
from tests.verbs.conftest import make_pipeline
from tests.verbs.test_execution import ended, gate

LAST = {"Name": "Last", "Type": "Fail", "Arguments": {"ErrorMessage": "no"}}


def test_every_gate_of_shoals_pipeline_is_found() -> None:
    assert list(conditions(definition())) == [
        ("accuracy", "at least", "MinAccuracy"),
        ("rmse", "at most", "MaxRmse"),
    ]


@pytest.mark.parametrize("steps", [[], [LAST | {"Name": "Gate"}], [gate(met=True)]])
def test_a_pipeline_of_another_form_has_no_gates(steps: list[dict[str, Any]]) -> None:
    assert list(conditions({"Steps": steps})) == []


@pytest.mark.parametrize("step", [gate(met=True), LAST], ids=["another gate", "no gate"])
def test_an_execution_of_such_a_one_has_none(target: Target, step: dict[str, Any]) -> None:
    pipeline = make_pipeline(target, [step])
    assert gates_of(target, ended(pipeline, pipeline.start({}))) == ()


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (0.9928, "accuracy 0.9928, must be at least 0.98"),
        (None, "accuracy not readable, must be at least 0.98"),
    ],
)
def test_a_gate_is_one_sentence(value: float | None, sentence: str) -> None:
    assert str(GateResult("accuracy", "at least 0.98", value)) == sentence


def _compare_function(target: Target) -> str:
    """Make the function of the step Compare, and return its ARN."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in Path(FUNCTIONS, "compare").glob("*.py"):
            archive.write(path, path.name)
    name = f"compare-{uuid.uuid4().hex[:8]}"
    document = trust({"Service": "lambda.amazonaws.com"})
    role = target.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=document)
    function = target.client("lambda").create_function(
        FunctionName=name,
        Runtime="python3.12",
        Role=role["Role"]["Arn"],
        Handler="compare.handler",
        Code={"ZipFile": packed.getvalue()},
    )
    return str(function["FunctionArn"])


def _approve(target: Target, bucket: str, accuracy: float) -> str:
    """Make a group with one approved version, and return its name."""
    client, group = target.client("sagemaker"), f"group-{uuid.uuid4().hex[:8]}"
    container = {"Image": "111122223333.dkr.ecr.us-east-1.amazonaws.com/mine:1"}
    client.create_model_package_group(ModelPackageGroupName=group)
    client.create_model_package(
        ModelPackageGroupName=group,
        ModelApprovalStatus="Approved",
        CustomerMetadataProperties={"value_of_accuracy": str(accuracy)},
        InferenceSpecification={
            "Containers": [container | {"ModelDataUrl": f"s3://{bucket}/model.tar.gz"}],
            "SupportedContentTypes": ["text/csv"],
            "SupportedResponseMIMETypes": ["text/csv"],
        },
    )
    return group


def test_a_comparison_with_the_approved_version_decides(target: Target, bucket: str) -> None:
    """The real function, in an execution that measures nothing and has only these steps."""
    steps = steps_by_name(compared())
    group, arn = _approve(target, bucket, 0.98), _compare_function(target)
    arguments = steps["Compare"]["Arguments"] | {"model_package_group_name": group}
    arguments["value_of_accuracy"] = {"Get": "Parameters.Accuracy"}
    compare = steps["Compare"] | {"FunctionArn": arn, "Arguments": arguments}
    condition = steps["Gate"]["Arguments"]["Conditions"][-1]
    words = {"Get": "Steps.Compare.OutputParameters['reason_of_accuracy']"}
    failure = {"ErrorMessage": {"Std:Join": {"On": " ", "Values": ["no:", words]}}}
    last = LAST | {"Arguments": failure}
    arguments = {"Conditions": [condition], "IfSteps": [], "ElseSteps": [last]}
    parameters: list[dict[str, Any]] = [
        {"Name": "Accuracy", "Type": "Float"},
        {"Name": "AccuracyTolerance", "Type": "Float", "DefaultValue": 0.01},
    ]
    gate = steps["Gate"] | {"Arguments": arguments}
    pipeline = make_pipeline(target, [compare, gate], parameters)
    arns = [pipeline.start({"Accuracy": value}) for value in ("0.97", "0.969")]
    good, bad = (ended(pipeline, arn) for arn in arns)
    assert (good.status, bad.status) == ("Succeeded", "Failed")
    assert "no: version 1, approved, has 0.98" in bad.steps[-1].failure_reason
    (result,), (missed,) = gates_of(target, good), gates_of(target, bad)
    assert result.limit == "at least 0.97 (version 1, approved, has 0.98)"
    assert (result.passed, missed.passed) == (True, False)


def test_a_value_on_a_compared_limit_passes_though_the_limit_is_shown_rounded() -> None:
    said = {"limit": "at least 0.941235", "reason": "version 1", "margin": "0.0"}
    outputs = [{"Name": f"{part}_of_accuracy", "Value": value} for part, value in said.items()]
    metadata = {"Lambda": {"OutputParameters": outputs}}
    step = Step("Compare", "Lambda", "Succeeded", metadata=metadata)
    gate = _compared(Execution("arn", "Succeeded", "", None, (step,)), "accuracy", 0.9412347)
    assert (gate.value, gate.passed) == (0.9412347, True)
