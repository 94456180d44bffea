"""The SageMaker pipeline that CloudFormation deploys, from a definition with CDK tokens in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from shoal.pipelines.limits import every_step
from shoal.settings.names import Names

_IMAGE_KEYS = ("TrainingImage", "ImageUri", "Image")


class TrainingPipeline(Construct):
    """`resource` is the AWS::SageMaker::Pipeline."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        definition: Mapping[str, Any],
        role: iam.IRole,
    ) -> None:
        super().__init__(scope, construct_id)
        self.resource = sagemaker.CfnPipeline(
            self,
            "Pipeline",
            pipeline_name=names.pipeline,
            pipeline_display_name=names.pipeline,
            pipeline_description=_description(names),
            role_arn=role.role_arn,
            # One Fn::Join: CDK tokens are resolved at deployment, everything else is escaped now.
            pipeline_definition={
                "PipelineDefinitionBody": cdk.Stack.of(self).to_json_string(dict(definition))
            },
        )
        # The role alone is not enough: a pipeline started before the role has its policies fails
        # with AccessDenied.
        self.resource.node.add_dependency(role)


def _description(names: Names) -> str:
    environment = names.environment
    if names.part:
        return f"Scores with an approved model of {environment.workload}"
    if environment.endpoint is None:
        return f"Trains, evaluates, seals and registers {environment.workload}"
    return f"Trains, evaluates, seals, registers, deploys and tests {environment.workload}"


def images(definition: Mapping[str, Any], step_type: str) -> set[str]:
    """Return the container images that the steps of `step_type` name, in branches too."""
    return {
        image
        for step in every_step(definition["Steps"])
        if step["Type"] == step_type
        for image in _images(step["Arguments"])
    }


def step_names(definition: Mapping[str, Any]) -> list[str]:
    """Return the steps' names in the definition's order, branches included."""
    return [step["Name"] for step in every_step(definition["Steps"])]


def _images(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, child in value.items():
            if key in _IMAGE_KEYS and isinstance(child, str):
                yield child
            else:
                yield from _images(child)
    elif isinstance(value, list):
        for child in value:
            yield from _images(child)
