"""A pipeline of your own, written with SageMaker's Python SDK v3.

An environment file deploys it with `pipeline: examples.sdk_pipeline:build`, through the same
stacks, roles and teardown guard as Shoal's own pipeline. It trains as the environment file says,
and does nothing else. The SDK must be installed where the synth runs.
"""

from __future__ import annotations

import os
from typing import Any

import boto3

from shoal.launch import Launch, resolve
from shoal.pipelines.graph import Infrastructure
from shoal.settings.names import Names
from shoal.settings.settings import Environment

# The SDK makes a client while it is imported, and asks IAM about roles: neither may reach a network
# during a synth.
os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
os.environ["SAGEMAKER_VALIDATE_ROLE"] = "false"

from sagemaker.core.training.configs import (
    Compute,
    InputData,
    Networking,
    OutputDataConfig,
    StoppingCondition,
)
from sagemaker.core.workflow.execution_variables import ExecutionVariables
from sagemaker.core.workflow.functions import Join
from sagemaker.core.workflow.parameters import ParameterInteger
from sagemaker.core.workflow.pipeline_context import PipelineSession
from sagemaker.mlops.workflow.pipeline import Pipeline
from sagemaker.mlops.workflow.steps import TrainingStep
from sagemaker.train.model_trainer import ModelTrainer

_NO_TELEMETRY = {
    "SchemaVersion": "1.0",
    "SageMaker": {"PythonSDK": {"Modules": {"TelemetryOptOut": True}}},
}


def build(environment: Environment, infrastructure: Infrastructure) -> Pipeline:
    """Return a pipeline of one training step, whose epochs may change from run to run."""
    names, training = Names(environment), environment.training
    epochs = ParameterInteger("Epochs", default_value=int(training.hyperparameters["epochs"]))
    output = [
        f"s3://{names.bucket('artifacts')}/training",
        ExecutionVariables.PIPELINE_EXECUTION_ID,
    ]
    # A session of which the SDK asks nothing: its credentials are placeholders.
    boto = boto3.Session(
        aws_access_key_id="none", aws_secret_access_key="none", region_name=environment.region
    )
    session = PipelineSession(
        boto_session=boto,
        default_bucket=names.bucket("artifacts"),
        sagemaker_config=_NO_TELEMETRY,
    )
    launch = resolve(training, environment.region)
    trainer = ModelTrainer(
        sagemaker_session=session,
        role=infrastructure.training_role_arn,
        training_image=launch.image_uri,
        base_job_name="train",
        hyperparameters=_hyperparameters(launch, environment, infrastructure, output)
        | {"epochs": epochs.to_string()},
        compute=Compute(
            instance_type=training.instance_type,
            instance_count=training.instance_count,
            volume_size_in_gb=training.volume_size_gb,
        ),
        networking=Networking(
            subnets=list(infrastructure.training_subnet_ids),
            security_group_ids=list(infrastructure.training_security_group_ids),
        ),
        stopping_condition=StoppingCondition(max_runtime_in_seconds=training.max_runtime_s),
        output_data_config=OutputDataConfig(
            s3_output_path=Join(on="/", values=output), kms_key_id=infrastructure.kms_key_arn
        ),
    )
    channels = [
        InputData(channel_name=channel, data_source=f"{names.dataset_uri}/{channel}/")
        for channel in ("train", "test")
    ]
    step = TrainingStep(name="Train", step_args=trainer.train(input_data_config=channels))
    return Pipeline(
        name=names.pipeline,
        parameters=[epochs],
        steps=[step],
        sagemaker_session=session,
        pipeline_experiment_config=None,
    )


def _hyperparameters(
    launch: Launch, environment: Environment, infrastructure: Infrastructure, output: list[Any]
) -> dict[str, Any]:
    """Return the launch contract's hyperparameters; an execution's name comes when it starts."""
    name, training = Names(environment).pipeline, environment.training
    hyperparameters: dict[str, Any] = dict(
        launch.for_job(
            infrastructure.code_uri, name, training.hyperparameters, output_path=output[0]
        )
    )
    hyperparameters["sagemaker_job_name"] = Join(
        on="-", values=[name, ExecutionVariables.PIPELINE_EXECUTION_ID]
    )
    if launch.needs_model_dir:
        hyperparameters["model_dir"] = Join(on="/", values=[*output, "model"])
    return hyperparameters
