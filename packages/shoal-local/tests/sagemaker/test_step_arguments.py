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


def refusal(step: dict[str, Any], **parts: Any) -> str:
    with pytest.raises(AwsError) as caught:
        check_arguments(parse(definition(step, **parts)))
    return caught.value.message


def test_a_step_of_which_the_run_would_refuse_a_field_is_refused() -> None:
    message = refusal(train(TensorBoardOutputConfig={"S3OutputPath": "s3://bucket/board"}))
    assert message.startswith("Step Train: The Shoal emulator does not emulate TensorBoard")


def test_a_step_in_a_branch_is_checked_too() -> None:
    condition = {"Type": "Equals", "LeftValue": 1, "RightValue": 1}
    arguments = {
        "Conditions": [condition],
        "IfSteps": [train(ResourceConfig=resources(InstanceType="ml.trn1.2xlarge"))],
    }
    step = {"Name": "If", "Type": "Condition", "Arguments": arguments}
    assert "AWS Neuron devices" in refusal(step)


def test_a_parameter_counts_with_its_default() -> None:
    kind = {"Name": "Kind", "Type": "String", "DefaultValue": "ml.trn1.2xlarge"}
    step = train(ResourceConfig=resources(InstanceType={"Get": "Parameters.Kind"}))
    assert "AWS Neuron devices" in refusal(step, Parameters=[kind])


def test_what_only_the_run_knows_and_an_image_without_a_runtime_are_not_refused() -> None:
    unknown = {"Get": "Parameters.Count"}
    own = {"TrainingImage": "111122223333.dkr.ecr.us-east-1.amazonaws.com/own:1"}
    steps = (
        train(AlgorithmSpecification={**own, "TrainingInputMode": "File"}),
        train(ResourceConfig=resources(InstanceCount=unknown)),
        train(EnableNetworkIsolation={"Get": "Execution.PipelineName"}),
    )
    for step in steps:
        check_arguments(parse(definition(step, Parameters=[COUNT])))


def test_an_algorithm_of_sagemakers_own_is_refused() -> None:
    image = "683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-xgboost:1.7-1"
    step = train(
        AlgorithmSpecification={"TrainingImage": image, "TrainingInputMode": "File"},
        HyperParameters={"num_round": "5"},
    )
    assert "built-in algorithm of 6833" in refusal(step)
