"""CreatePipeline refuses the step arguments that the run would refuse."""

from __future__ import annotations

from typing import Any

import pytest

from local_kit.sagemaker_account import TRAINING_IMAGE
from shoal_local.errors import AwsError
from shoal_local.sagemaker.pipelines.definition.arguments import check_arguments
from shoal_local.sagemaker.pipelines.definition.definition import parse
from tests.sagemaker.test_definitions import definition

COUNT = {"Name": "Count", "Type": "Integer"}


def train(**changes: Any) -> dict[str, Any]:
    arguments = {
        "AlgorithmSpecification": {"TrainingImage": TRAINING_IMAGE, "TrainingInputMode": "File"},
        "RoleArn": "arn:aws:iam::111122223333:role/jobs",
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
        "ResourceConfig": {
            "InstanceType": "ml.m5.xlarge",
            "InstanceCount": 1,
            "VolumeSizeInGB": 1,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 60},
    }
    return {"Name": "Train", "Type": "Training", "Arguments": arguments | changes}


def resources(**changes: Any) -> dict[str, Any]:
    return dict(train()["Arguments"]["ResourceConfig"], **changes)


BOARD = {"S3OutputPath": "s3://bucket/board"}
NEURON = train(ResourceConfig=resources(InstanceType="ml.trn1.2xlarge"))
CONDITION = {"Type": "Equals", "LeftValue": 1, "RightValue": 1}
XGBOOST = "683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-xgboost:1.7-1"
KIND = {"Name": "Kind", "Type": "String", "DefaultValue": "ml.trn1.2xlarge"}


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            train(TensorBoardOutputConfig=BOARD),
            "Step Train: The Shoal emulator does not emulate",
        ),
        (
            {
                "Name": "If",
                "Type": "Condition",
                "Arguments": {"Conditions": [CONDITION], "IfSteps": [NEURON]},
            },
            "AWS Neuron devices",
        ),
        # a parameter counts with its default
        (
            train(ResourceConfig=resources(InstanceType={"Get": "Parameters.Kind"})),
            "AWS Neuron devices",
        ),
        (
            train(
                AlgorithmSpecification={"TrainingImage": XGBOOST, "TrainingInputMode": "File"},
                HyperParameters={"num_round": "5"},
            ),
            "built-in algorithm of 6833",
        ),
    ],
)
def test_a_step_that_the_run_would_refuse_is_refused(step: dict[str, Any], message: str) -> None:
    with pytest.raises(AwsError) as caught:
        check_arguments(parse(definition(step, Parameters=[KIND])))
    assert message in caught.value.message


def test_what_only_the_run_knows_and_an_image_without_a_runtime_are_not_refused() -> None:
    own = {"TrainingImage": "111122223333.dkr.ecr.us-east-1.amazonaws.com/own:1"}
    for step in (
        train(AlgorithmSpecification={**own, "TrainingInputMode": "File"}),
        train(ResourceConfig=resources(InstanceCount={"Get": "Parameters.Count"})),
        train(EnableNetworkIsolation={"Get": "Execution.PipelineName"}),
    ):
        check_arguments(parse(definition(step, Parameters=[COUNT])))
