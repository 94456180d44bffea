"""Every wrong way to write a step's arguments is found before AWS finds it, with step and path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shoal.launch.errors import ArgumentsError
from shoal.pipelines import shapes
from tests.pipelines.inputs import definition, steps_by_name

Change = Callable[[dict[str, Any]], object]


def mistakes_after(change: Change) -> list[str]:
    """Return the mistakes after `change` spoilt the arguments of the named steps."""
    document = definition()
    change({name: step["Arguments"] for name, step in steps_by_name(document).items()})
    return list(shapes.mistakes_in(document))


SPOILT: list[tuple[Change, str]] = [
    (
        lambda a: a["Train"]["ResourceConfig"].update(InstanceTyp="x"),
        "Train.ResourceConfig.InstanceTyp: unknown field of ResourceConfig",
    ),
    (
        lambda a: a["Train"].pop("RoleArn"),
        "Train.RoleArn: required field of CreateTrainingJobRequest is missing",
    ),
    (
        lambda a: a["Train"].update(TrainingJobName="x"),
        "Train.TrainingJobName: the pipeline makes up this name itself",
    ),
    (
        lambda a: a["Train"]["VpcConfig"].update(Subnets=[]),
        "Train.VpcConfig.Subnets: 0 items; allowed are 1 to 16",
    ),
    (
        lambda a: a["Train"]["HyperParameters"].update(epochs=2),
        "Train.HyperParameters.epochs: must be text, not int",
    ),
    (
        lambda a: a["Train"]["HyperParameters"].update({"x" * 257: "1"}),
        "257 characters; allowed are 0 to 256",
    ),
    (
        lambda a: a["Train"]["HyperParameters"].update({f"h{n}": "1" for n in range(100)}),
        "entries; allowed are 0 to 100",
    ),
    (
        lambda a: a["Train"].update(RoleArn="this-is-not-an-arn-at-all"),
        "Train.RoleArn: 'this-is-not-an-arn-at-all' does not match",
    ),
    (
        lambda a: a["Train"].update(EnableManagedSpotTraining="yes"),
        "Train.EnableManagedSpotTraining: must be true or false, not str",
    ),
    (
        lambda a: a["Train"].update(InputDataConfig={}),
        "Train.InputDataConfig: must be a list, not dict",
    ),
    (
        lambda a: a["Train"].update(OutputDataConfig="s3://x"),
        "Train.OutputDataConfig: must be an object, not str",
    ),
    (lambda a: a["Train"].update(Environment=[]), "Train.Environment: must be an object, not list"),
    (
        lambda a: a["Evaluate"]["StoppingCondition"].update(MaxRuntimeInSeconds="1"),
        "MaxRuntimeInSeconds: must be a whole number, not str",
    ),
    (
        lambda a: a["Evaluate"]["StoppingCondition"].update(MaxRuntimeInSeconds=0),
        "MaxRuntimeInSeconds: 0; allowed are 1 to 777600",
    ),
    (
        lambda a: a["Evaluate"]["ProcessingResources"]["ClusterConfig"].update(
            InstanceType="ml.m5.xlage"
        ),
        "'ml.m5.xlage' is not one of ml.m5.xlarge",
    ),
    (
        lambda a: a["Register"].update(ModelApprovalStatus="Pending"),
        "'Pending' is not one of PendingManualApproval",
    ),
    (
        lambda a: a["CreateEndpointConfig"]["ProductionVariants"][0].update(
            InitialVariantWeight="1"
        ),
        "ProductionVariants[0].InitialVariantWeight: must be a number, not str",
    ),
    (
        lambda a: a["CreateEndpoint"].pop("EndpointConfigName"),
        "CreateEndpoint.EndpointConfigName: required field",
    ),
    (
        lambda a: a["SmokeTest"].update(tags=["x"]),
        "SmokeTest.tags: inputs of a Lambda step are text, numbers, true or false, not list",
    ),
    (
        lambda a: a["GateFailed"].update(Reason="x"),
        "GateFailed: Fail takes ErrorMessage and nothing else",
    ),
]


@pytest.mark.parametrize(("change", "line"), SPOILT, ids=[line for _, line in SPOILT])
def test_a_spoilt_argument_is_found_at_its_path(change: Change, line: str) -> None:
    (mistake,) = mistakes_after(change)
    assert line in mistake


def test_expressions_and_cdk_tokens_stand_for_anything() -> None:
    def change(arguments: dict[str, Any]) -> None:
        arguments["Train"]["RoleArn"] = (
            "arn:${Token[AWS.Partition.3]}:iam::${Token[AWS.AccountId.0]}:role/x"
        )
        arguments["Train"]["StoppingCondition"] = {"Get": "Steps.Evaluate.StoppingCondition"}

    assert mistakes_after(change) == []


def test_a_parameter_is_checked_with_its_default() -> None:
    document = definition()
    parameter = next(item for item in document["Parameters"] if item["Name"] == "InstanceType")
    parameter["DefaultValue"] = "ml.p4d.24xlage"
    (mistake,) = shapes.mistakes_in(document)
    assert (
        "Train.ResourceConfig.InstanceType: 'ml.p4d.24xlage' is not one of ml.p4d.24xlarge"
        in mistake
    )


def test_a_step_type_without_a_rule_is_refused_by_name() -> None:
    document = definition()
    document["Steps"][0]["Type"] = "EMR"
    assert list(shapes.mistakes_in(document)) == [
        "Train: there is no rule for step type EMR; known: Training, Processing, Transform, Tuning,"
        " RegisterModel, Model, EndpointConfig, Endpoint, Callback, Condition, Fail, Lambda"
    ]


def test_a_definition_longer_than_the_api_takes_is_refused() -> None:
    document = definition()
    document["Metadata"] = {"padding": "x" * shapes.MAX_DEFINITION}
    (mistake,) = shapes.mistakes_in(document)
    assert "SageMaker allows 1048576" in mistake


def test_checking_raises_all_mistakes_at_once() -> None:
    document = definition()
    del document["Steps"][0]["Arguments"]["RoleArn"]
    del document["Steps"][1]["Arguments"]["RoleArn"]
    with pytest.raises(ArgumentsError) as caught:
        shapes.check(document)
    assert len(caught.value.mistakes) == 2
