"""The SageMaker pipeline of a definition, its registry, and what the definition refers to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from shoal.constructs.pipeline.code_archive import CodeArchive
from shoal.constructs.python_function import PythonFunction
from shoal.constructs.roles.delivery_roles import registry_policy
from shoal.constructs.roles.guard_rails import Place
from shoal.constructs.shoal_stack import removal_policy
from shoal.constructs.storage import REGISTRY_PURPOSE, EmptyOnDelete
from shoal.pipelines.graph import Infrastructure, MountedFileSystem
from shoal.pipelines.limits import every_step, objects_in
from shoal.settings.loading.consumers import Consumer
from shoal.settings.names import Names


@dataclass(frozen=True)
class StepFunctions:
    """The functions that the pipeline's steps call."""

    seal: PythonFunction
    smoke_test: PythonFunction | None = None
    teardown: PythonFunction | None = None
    """Only where there is an endpoint, as is `smoke_test`."""
    compare: PythonFunction | None = None
    """Only where a gate is `not_worse_than: approved`."""

    @property
    def all(self) -> list[PythonFunction]:
        several = (self.seal, self.smoke_test, self.teardown, self.compare)
        return [function for function in several if function]


def infrastructure(
    names: Names,
    *,
    code: CodeArchive,
    key: kms.IKey,
    training: Place,
    hosting: Place,
    functions: StepFunctions,
    images: Mapping[str, str],
    file_system: MountedFileSystem | None,
    mlflow_app_arn: str | None,
) -> Infrastructure:
    """Return the ids and ARNs as the definition takes them; most are CDK tokens.

    `images` are the URIs of what was built, by use.
    """
    return Infrastructure(
        code_uri=code.uri,
        is_watched=code.is_watched,
        kms_key_arn=key.key_arn,
        training_subnet_ids=training.subnet_ids,
        training_security_group_ids=training.security_group_ids,
        hosting_subnet_ids=hosting.subnet_ids,
        hosting_security_group_ids=hosting.security_group_ids,
        training_role_arn=names.role_arn("training"),
        evaluation_role_arn=names.role_arn("evaluation"),
        endpoint_role_arn=names.role_arn("endpoint") if names.environment.endpoint else "",
        seal_function_arn=_arn(functions.seal) or "",
        smoke_test_function_arn=_arn(functions.smoke_test) or "",
        teardown_function_arn=_arn(functions.teardown) or "",
        compare_function_arn=_arn(functions.compare),
        training_image_uri=images.get("training"),
        endpoint_image_uri=images.get("endpoint"),
        file_system=file_system,
        mlflow_app_arn=mlflow_app_arn,
    )


def _arn(function: PythonFunction | None) -> str | None:
    return function.function.function_arn if function else None


class ModelRegistry(Construct):
    """`group`, which `consumers` may read.

    In a protected environment it outlives its stack; else its versions are deleted with it.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        consumers: Sequence[Consumer] = (),
    ) -> None:
        super().__init__(scope, construct_id)
        protect = names.environment.protect
        self.group = sagemaker.CfnModelPackageGroup(
            self,
            "Group",
            model_package_group_name=names.model_package_group,
            # Fixed: another text would replace the group, whose name is taken.
            model_package_group_description=f"Models trained by the pipeline {names.pipeline}",
            model_package_group_policy=registry_policy(names, consumers),
        )
        self.group.apply_removal_policy(removal_policy(protect))
        if not protect:
            emptier = EmptyOnDelete(self, "EmptyOnDelete", names=names, purpose=REGISTRY_PURPOSE)
            emptier.registry(self.group)


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
        each[key]
        for step in every_step(definition["Steps"])
        if step["Type"] == step_type
        for each in objects_in(step["Arguments"])
        for key in _IMAGE_KEYS
        if isinstance(each.get(key), str)
    }


def step_names(definition: Mapping[str, Any]) -> list[str]:
    """Return the steps' names in the definition's order, branches included."""
    return [step["Name"] for step in every_step(definition["Steps"])]
