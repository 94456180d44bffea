"""What a definition may say: the emulator runs it as AWS would, or refuses it by name before
anything starts.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from local_kit.sagemaker_account import TRAINING_IMAGE, shell_step
from shoal_local.errors import AwsError
from shoal_local.sagemaker.pipelines.definition.definition import parse
from shoal_local.sagemaker.pipelines.definition.expressions import (
    ExpressionError,
    Scope,
    holds,
    walk,
)
from shoal_local.sagemaker.pipelines.execution.execution import Retries, final_status, ready_steps
from shoal_local.sagemaker.pipelines.execution.pipelines import check_arguments


def definition(*steps: dict[str, Any], **parts: Any) -> str:
    return json.dumps(
        {"Version": "2020-12-01", "Metadata": {}, "Parameters": [], **parts, "Steps": list(steps)}
    )


def step(kind: str, **arguments: Any) -> dict[str, Any]:
    return {"Name": "S", "Type": kind, "Arguments": arguments}


def with_value(value: Any) -> str:
    """Return a definition whose only step has a value in its environment."""
    return definition(shell_step("Step", "true", Arguments={"Environment": {"A": value}}))


RESOURCES = {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
PARAMETERS = [
    {"Name": "Kind", "Type": "String", "DefaultValue": "ml.trn1.2xlarge"},
    {"Name": "Count", "Type": "Integer"},
]


def train(image: str = TRAINING_IMAGE, **changes: Any) -> dict[str, Any]:
    """Return a training step; members of ResourceConfig go to it."""
    resources = RESOURCES | {key: changes.pop(key) for key in RESOURCES.keys() & changes.keys()}
    arguments = {
        "AlgorithmSpecification": {"TrainingImage": image, "TrainingInputMode": "File"},
        "RoleArn": "arn:aws:iam::111122223333:role/jobs",
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
        "ResourceConfig": resources,
        "StoppingCondition": {"MaxRuntimeInSeconds": 60},
    }
    return {"Name": "Train", "Type": "Training", "Arguments": arguments | changes}


def checked(*steps: dict[str, Any]) -> str:
    """Return a definition with parameters whose arguments CreatePipeline looks at."""
    return definition(*steps, Parameters=PARAMETERS)


CONDITION = {"Type": "Equals", "LeftValue": 1, "RightValue": 1}
UNKNOWN = {"Type": "No"}
A, B = shell_step("A", "true"), shell_step("B", "true")
INTEGER = {"Name": "P", "Type": "Integer", "DefaultValue": "1"}
NEURON = train(InstanceType="ml.trn1.2xlarge")
XGBOOST = "683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-xgboost:1.7-1"
QUALITY = step("QualityCheck") | {"CheckType": "DATA_QUALITY"}
OF_NO_STEP = {"S3Uri": {"Get": "Steps.No.Uri"}, "Path": "a"}
NO_IMAGE = shell_step("A", "", Arguments={"AppSpecification": {}})
LAMBDA = step("Lambda") | {"FunctionArn": "f"}
BOARD = {"S3OutputPath": "s3://bucket/board"}
KIND = {"Get": "Parameters.Kind"}
AFTER_B = {"DependsOn": ["B"]}


def decides(*conditions: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    return step("Condition", Conditions=list(conditions), **arguments)


def after(members: dict[str, Any]) -> dict[str, Any]:
    return {"DependsOn": [{"Step": "B", **members}]}


def retried(**policy: Any) -> dict[str, Any]:
    return {"RetryPolicies": [{"ExceptionType": ["Step.THROTTLING"], **policy}]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (definition(step("QualityCheck")), "does not emulate the step type 'QualityCheck'"),
        (definition(QUALITY), "does not emulate the step type 'QualityCheck'"),
        (with_value({"Std:Split": "a"}), "does not emulate the expression"),
        (with_value({"Std:JsonGet": {"S3Uri": "s3://b/k"}}), "does not emulate the expression"),
        (with_value({"Std:JsonGet": OF_NO_STEP}), "depends on No, which is not another step"),
        (with_value({"Get": "Execution.JobName"}), "not emulate the execution variable JobName"),
        (with_value({"Get": "Parameters.No"}), "the parameter No, which is not defined"),
        (with_value({"Get": "Steps.Nothing.X"}), "depends on Nothing"),
        (definition(shell_step("A", "", Arguments={"RoleAn": "x"})), "Unknown field"),
        (checked(train(TrainingJobName="a_b")), "trainingJobName"),
        (checked(train(TrainingJobName="x" * 64)), "trainingJobName"),
        (definition(NO_IMAGE), "'appSpecification.imageUri' failed to satisfy constraint: Member "),
        (definition(A, A), "The step name A is used twice"),
        (definition(A | AFTER_B, B | {"DependsOn": ["A"]}), "depend on each other: A -> B -> A"),
        (definition(A | {"CacheConfig": {"Enabled": True}}), "not emulate step caching (CacheConf"),
        (definition(A | {"Colour": "red"}), "Steps[0]: Additional properties are not allowed ('Co"),
        (definition(A | {"FunctionArn": "x"}), "Steps[0]: 'FunctionArn' should not be valid"),
        (definition(decides({"Type": "Like"})), "the condition type 'Like'"),
        (definition(decides({"Type": "Not", "Expression": UNKNOWN})), "the condition type 'No'"),
        (definition(decides(CONDITION | {"Values": []})), "[0].Arguments.Conditions[0]: {"),
        (definition(decides()), "Arguments.Conditions: [] should be non-em"),
        (definition(decides(CONDITION, IfSteps=[A | {"Name": "A B"}])), "IfSteps[0].Name: 'A B'"),
        (definition(decides(CONDITION), A | {"DependsOn": ["S"]}), "put it into a branch"),
        (definition(A, PipelineExperimentConfig={"ExperimentName": "x"}), "PipelineExperimentConf"),
        (definition(A, Parameters=[INTEGER]), "is not of type Integer"),
        (definition(A, Parameters=[INTEGER | {"Name": "a b"}]), "[0].Name: 'a b' does not match"),
        (definition(A, Parameters=[INTEGER, INTEGER | {"DefaultValue": 1}]), "is not of type Int"),
        (definition(A, Version="2"), "the definition.Version: '2020-12-01' was expected"),
        ("{", "Unable to parse pipeline definition"),
        ("[" * 100_000, "Unable to parse pipeline definition. It is nested too deep"),
        (definition(A | {"Name": 7}), "the definition.Steps[0].Name: 7 is not of type 'string'"),
        (definition(A | after({})), "DependsOn[0]: 'Trigger' is a required"),
        (definition(A | after({"Trigger": "Never"})), "'Never' is not one of ['Completed'"),
        (definition(A | retried(ExceptionType=["Step.NONE"])), "'Step.NONE' is not one of ['"),
        (definition(A | retried(MaxAttempts=21)), "[0].MaxAttempts: 21 is greater than the"),
        (definition(LAMBDA | retried()), "Steps of type Lambda cannot be retried (step S)"),
        (definition(step("Fail")), "Steps[0].Arguments: 'ErrorMessage' is a required property"),
        (definition(step("Lambda")), "Steps[0]: 'FunctionArn' is a required property"),
        (definition(step("Callback")), "Steps[0]: 'SqsQueueUrl' is a required property"),
        # what the run would refuse
        (checked(train(TensorBoardOutputConfig=BOARD)), "Step Train: The Shoal emulator does"),
        (checked(decides(CONDITION, IfSteps=[NEURON])), "does not emulate AWS Neuron devices"),
        # a parameter counts with its default
        (checked(train(InstanceType=KIND)), "does not emulate AWS Neuron devices"),
        (checked(train(XGBOOST, HyperParameters={"n": "5"})), "the built-in algorithm of 6833"),
    ],
)
def test_what_is_wrong_or_not_emulated_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(AwsError) as caught:
        check_arguments(parse(text))
    missing = "not emulate" in caught.value.message
    assert caught.value.code == ("UnknownOperationException" if missing else "ValidationException")
    assert message in caught.value.message


@pytest.mark.parametrize(
    "step",
    [
        # a name begins the job's own
        train(TrainingJobName="mine"),
        train(TrainingJobName="x" * 63),
        train(TrainingJobName={"Get": "Parameters.Count"}),
        # what only the run knows; also an image without a runtime here
        train("111122223333.dkr.ecr.us-east-1.amazonaws.com/own:1"),
        train(InstanceCount={"Get": "Parameters.Count"}),
        train(EnableNetworkIsolation={"Get": "Execution.PipelineName"}),
    ],
)
def test_what_a_run_may_be_able_to_do_is_accepted(step: dict[str, Any]) -> None:
    check_arguments(parse(checked(step)))


def test_the_experiment_that_the_sdk_writes_into_each_definition_is_accepted() -> None:
    experiment = {
        "ExperimentName": {"Get": "Execution.PipelineName"},
        "TrialName": {"Get": "Execution.PipelineExecutionId"},
    }
    parsed = parse(definition(A, PipelineExperimentConfig=experiment))
    assert [*parsed.steps] == ["A"]


def scope() -> Scope:
    outputs = {"Outputs": [{"OutputName": "report", "S3Uri": "s3://b/k"}], "Sizes": [1, 2]}
    return Scope(
        {"P": 7},
        lambda name: f"<{name}>",
        lambda _step: outputs,
        lambda _step, _name: {"a": {"b": [0.5]}},
        lambda uri: {"of": {uri: [1]}},
    )


JOIN = {"On": "-", "Values": ["a", {"Get": "Parameters.P"}, 0.5, True]}
JSON_GET = {"PropertyFile": {"Get": "Steps.S.PropertyFiles.F"}, "Path": "a.b[0]"}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ({"Get": "Parameters.P"}, 7),
        ({"Get": "Execution.PipelineExecutionId"}, "<PipelineExecutionId>"),
        ({"Get": "Steps.S.Outputs['report'].S3Uri"}, "s3://b/k"),
        ({"Get": "Steps.S.Sizes[1]"}, 2),
        ({"Std:Join": JOIN}, "a-7-0.5-true"),
        ({"Std:JsonGet": JSON_GET}, 0.5),
        ({"Std:JsonGet": {"S3Uri": {"Std:Join": JOIN}, "Path": "of['a-7-0.5-true'][0]"}}, 1),
    ],
)
def test_an_expression_has_its_value(expression: dict[str, Any], value: Any) -> None:
    assert scope().resolve({"deep": [expression]}) == {"deep": [value]}


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
        ({"Type": "NotIn", "QueryValue": "a", "Values": ["b", "a"]}, False),
        ({"Type": "Not", "Expression": {"Type": "In", "QueryValue": "a", "Values": ["b"]}}, True),
        ({"Type": "Or", "Conditions": [CONDITION | {"LeftValue": 2}, CONDITION]}, True),
        ({"Type": "Or", "Conditions": [CONDITION | {"LeftValue": 2}]}, False),
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
    follows = B | {"DependsOn": [{"Step": "A", "Trigger": trigger}]}
    steps = parse(definition(A, follows)).steps
    assert ("B" in ready_steps(steps, {"A": status}, {})) is starts


def test_a_failure_that_nothing_took_up_is_a_failed_execution() -> None:
    steps = parse(definition(A, B)).steps
    assert final_status(steps, {"A": "Failed", "B": "Succeeded"}, stopped=False) == "Failed"


THROTTLING, FAULT = "Step.THROTTLING", "Step.SERVICE_FAULT"
ONCE = {"ExceptionType": [THROTTLING], "IntervalSeconds": 7, "MaxAttempts": 1}
LONGER = {"ExceptionType": [FAULT], "IntervalSeconds": 2, "BackoffRate": 3.0, "MaxAttempts": 2}


@pytest.mark.parametrize(
    ("policies", "causes", "pauses_s"),
    [
        # what the service got wrong itself is tried again without a policy
        ([], [THROTTLING, "SageMaker.CAPACITY_ERROR"], [1.0, None]),
        ([ONCE], [THROTTLING, THROTTLING, FAULT], [7.0, None, 1.0]),
        ([LONGER], ["", FAULT, FAULT, FAULT], [None, 2.0, 6.0, None]),
    ],
)
def test_a_failure_is_tried_again_as_its_policies_say(
    policies: list[dict[str, Any]], causes: list[str], pauses_s: list[float | None]
) -> None:
    retries = Retries(policies)
    assert [retries.pause_s(cause) for cause in causes] == pauses_s
