"""What a definition may say: the emulator runs it as AWS would, or refuses it by name before
anything starts.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from local_kit.sagemaker_account import shell_step
from shoal_local.errors import AwsError
from shoal_local.sagemaker.pipelines.definition.conditions import holds
from shoal_local.sagemaker.pipelines.definition.definition import parse
from shoal_local.sagemaker.pipelines.definition.expressions import ExpressionError, Scope, walk
from shoal_local.sagemaker.pipelines.execution.graph import final_status, ready_steps
from shoal_local.sagemaker.pipelines.execution.retries import Retries


def definition(*steps: dict[str, Any], **parts: Any) -> str:
    return json.dumps(
        {"Version": "2020-12-01", "Metadata": {}, "Parameters": [], **parts, "Steps": list(steps)}
    )


def with_arguments(**arguments: Any) -> dict[str, Any]:
    return shell_step("Step", "true", Arguments=arguments)


CONDITION = {"Type": "Equals", "LeftValue": 1, "RightValue": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            definition({"Name": "Check", "Type": "QualityCheck", "Arguments": {}}),
            "does not emulate the step type 'QualityCheck'",
        ),
        (
            definition(with_arguments(Environment={"A": {"Std:Split": "a"}})),
            "does not emulate the expression",
        ),
        (
            definition(with_arguments(Environment={"A": {"Get": "Execution.TrainingJobName"}})),
            "the execution variable TrainingJobName",
        ),
        (
            definition(with_arguments(Environment={"A": {"Get": "Parameters.Nothing"}})),
            "the parameter Nothing, which is not defined",
        ),
        (
            definition(with_arguments(Environment={"A": {"Get": "Steps.Nothing.X"}})),
            "depends on Nothing",
        ),
        (definition(with_arguments(RoleAn="x")), "Unknown field"),
        (
            definition(with_arguments(AppSpecification={})),
            "'appSpecification.imageUri' failed to satisfy constraint: Member must not be null",
        ),
        (
            definition(shell_step("A", "true"), shell_step("A", "true")),
            "The step name A is used twice",
        ),
        (
            definition(shell_step("A", "", DependsOn=["B"]), shell_step("B", "", DependsOn=["A"])),
            "depend on each other: A -> B -> A",
        ),
        (
            definition(shell_step("A", "true", CacheConfig={"Enabled": True})),
            "CacheConfig of step A needs ExpireAfter",
        ),
        (
            definition(
                shell_step("A", "true", CacheConfig={"Enabled": True, "ExpireAfter": "1 day"})
            ),
            "ExpireAfter '1 day' is not an ISO 8601 duration",
        ),
        (
            definition(
                {
                    "Name": "F",
                    "Type": "Fail",
                    "Arguments": {"ErrorMessage": "no"},
                    "CacheConfig": {"Enabled": True, "ExpireAfter": "P1D"},
                }
            ),
            "step caching of Fail steps",
        ),
        (definition(shell_step("A", "true", Colour="red")), "Unknown property 'Colour' in step A"),
        (
            definition(
                {"Name": "C", "Type": "Condition", "Arguments": {"Conditions": [{"Type": "Like"}]}}
            ),
            "the condition type 'Like'",
        ),
        (
            definition(
                {"Name": "C", "Type": "Condition", "Arguments": {"Conditions": [CONDITION]}},
                shell_step("A", "", DependsOn=["C"]),
            ),
            "put it into a branch",
        ),
        (
            definition(shell_step("A", "true"), PipelineExperimentConfig={"ExperimentName": "x"}),
            "PipelineExperimentConfig",
        ),
        (
            definition(
                shell_step("A", "true"),
                Parameters=[{"Name": "P", "Type": "Integer", "DefaultValue": "1"}],
            ),
            "is not of type Integer",
        ),
        ("{", "Unable to parse pipeline definition"),
    ],
)
def test_what_is_wrong_or_not_emulated_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(AwsError) as caught:
        parse(text)
    missing = "does not emulate" in caught.value.message
    assert caught.value.code == ("UnknownOperationException" if missing else "ValidationException")
    assert message in caught.value.message


def test_the_experiment_that_the_sdk_writes_into_each_definition_is_accepted() -> None:
    experiment = {
        "ExperimentName": {"Get": "Execution.PipelineName"},
        "TrialName": {"Get": "Execution.PipelineExecutionId"},
    }
    parsed = parse(definition(shell_step("A", "true"), PipelineExperimentConfig=experiment))
    assert [*parsed.steps] == ["A"]


def scope(parameters: dict[str, Any]) -> Scope:
    outputs = {"Outputs": [{"OutputName": "report", "S3Uri": "s3://b/k"}], "Sizes": [1, 2]}
    return Scope(
        parameters,
        lambda name: f"<{name}>",
        lambda _step: outputs,
        lambda _step, _name: {"a": {"b": [0.5]}},
    )


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ({"Get": "Parameters.P"}, 7),
        ({"Get": "Execution.PipelineExecutionId"}, "<PipelineExecutionId>"),
        ({"Get": "Steps.S.Outputs['report'].S3Uri"}, "s3://b/k"),
        ({"Get": "Steps.S.Sizes[1]"}, 2),
        (
            {"Std:Join": {"On": "-", "Values": ["a", {"Get": "Parameters.P"}, 0.5, True]}},
            "a-7-0.5-true",
        ),
        (
            {"Std:JsonGet": {"PropertyFile": {"Get": "Steps.S.PropertyFiles.F"}, "Path": "a.b[0]"}},
            0.5,
        ),
    ],
)
def test_an_expression_has_its_value(expression: dict[str, Any], value: Any) -> None:
    assert scope({"P": 7}).resolve({"deep": [expression]}) == {"deep": [value]}


def test_a_path_that_leads_nowhere_is_an_error_with_its_name() -> None:
    with pytest.raises(ExpressionError, match=r"There is no a\.c in the file"):
        walk({"a": {"b": 1}}, "a.c", "the file")


@pytest.mark.parametrize(
    ("condition", "true"),
    [
        ({"Type": "Equals", "LeftValue": 1, "RightValue": 1.0}, True),
        ({"Type": "GreaterThan", "LeftValue": 2, "RightValue": 2}, False),
        ({"Type": "GreaterThanOrEqualTo", "LeftValue": 2, "RightValue": 2}, True),
        ({"Type": "LessThan", "LeftValue": 1, "RightValue": 2}, True),
        ({"Type": "LessThanOrEqualTo", "LeftValue": 3, "RightValue": 2}, False),
        ({"Type": "In", "QueryValue": "a", "Values": ["b", "a"]}, True),
        ({"Type": "Not", "Expression": {"Type": "In", "QueryValue": "a", "Values": ["b"]}}, True),
        (
            {
                "Type": "Or",
                "Conditions": [{"Type": "Equals", "LeftValue": 1, "RightValue": 2}, CONDITION],
            },
            True,
        ),
    ],
)
def test_a_condition_holds_or_not(condition: dict[str, Any], true: bool) -> None:
    assert holds(condition, lambda value: value) is true


def test_values_that_cannot_be_compared_are_an_error() -> None:
    with pytest.raises(ExpressionError, match="cannot compare 'a' with 1"):
        holds({"Type": "LessThan", "LeftValue": "a", "RightValue": 1}, lambda value: value)


@pytest.mark.parametrize(
    ("trigger", "status", "starts"),
    [
        ("Completed", "Succeeded", True),
        ("Completed", "Failed", False),
        ("Failed", "Failed", True),
        ("Any", "Stopped", True),
        ("Stopped", "Failed", False),
    ],
)
def test_a_trigger_waits_for_its_ending(trigger: str, status: str, starts: bool) -> None:
    steps = parse(
        definition(
            shell_step("A", "true"),
            shell_step("B", "true", DependsOn=[{"Step": "A", "Trigger": trigger}]),
        )
    ).steps
    assert ("B" in ready_steps(steps, {"A": status}, {})) is starts


def test_a_failure_that_nothing_took_up_is_a_failed_execution() -> None:
    steps = parse(definition(shell_step("A", "true"), shell_step("B", "true"))).steps
    assert final_status(steps, {"A": "Failed", "B": "Succeeded"}, stopped=False) == "Failed"


def test_what_the_service_got_wrong_itself_is_tried_again_without_a_policy_and_with_one_as_that_says() -> (  # noqa: E501
    None
):
    assert Retries([]).pause_s("Step.THROTTLING") == 1.0
    assert Retries([]).pause_s("SageMaker.CAPACITY_ERROR") is None
    own = Retries([{"ExceptionType": ["Step.THROTTLING"], "IntervalSeconds": 7, "MaxAttempts": 1}])
    assert [
        own.pause_s("Step.THROTTLING"),
        own.pause_s("Step.THROTTLING"),
        own.pause_s("Step.SERVICE_FAULT"),
    ] == [7.0, None, 1.0]


def test_retries_pause_longer_each_time_and_end_after_max_attempts() -> None:
    retries = Retries(
        [
            {
                "ExceptionType": ["Step.SERVICE_FAULT"],
                "IntervalSeconds": 2,
                "BackoffRate": 3.0,
                "MaxAttempts": 2,
            }
        ]
    )
    assert [
        retries.pause_s(cause)
        for cause in ("", "Step.SERVICE_FAULT", "Step.SERVICE_FAULT", "Step.SERVICE_FAULT")
    ] == [
        None,
        2.0,
        6.0,
        None,
    ]
