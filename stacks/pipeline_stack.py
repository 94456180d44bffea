"""What trains, tests and cleans up in one environment: the pipeline, its roles, its functions and
the teardown guard.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from config.names import Names
from pipelines.definition import Infrastructure
from pipelines.launch import Launch
from pipelines.limits import limits
from pipelines.own_pipeline import definition_of
from stacks.constructs import schedules, smoke_test, teardown_guard
from stacks.constructs.code_archive import CodeArchive
from stacks.constructs.guard_rails import Place
from stacks.constructs.job_roles import JobRoles
from stacks.constructs.pipeline_role import PipelineRole
from stacks.constructs.schedules import Schedules
from stacks.constructs.smoke_test import SmokeTest
from stacks.constructs.teardown_guard import TeardownGuard
from stacks.constructs.training_pipeline import TrainingPipeline, images, step_names
from stacks.data_stack import DataStack
from stacks.network_stack import NetworkStack

if TYPE_CHECKING:  # see stacks.stage
    from stacks.file_system_stack import FileSystemStack
    from stacks.image_stack import ImageStack


class PipelineStack(cdk.Stack):
    """Deployed last; nothing in it holds data."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        launch: Launch,
        root: Path,
        network: NetworkStack,
        data: DataStack,
        file_system: FileSystemStack | None = None,
        image: ImageStack | None = None,
        env: cdk.Environment,
    ) -> None:
        environment = names.environment
        super().__init__(
            scope,
            construct_id,
            stack_name=names.stack("pipeline"),
            env=env,
            termination_protection=environment.protect,
        )
        self._names, self._network, self._data = names, network, data
        self._image_uri = self._built_image(image) if image else None
        self._file_system = file_system.mounted_in(self) if file_system else None
        self._code = CodeArchive(self, "Code", source_dir=root / environment.training.source_dir)
        self._smoke_test = SmokeTest(
            self, "SmokeTest", names=names, functions=root / "stacks" / "functions"
        )
        self._guard = TeardownGuard(
            self, "TeardownGuard", names=names, functions=root / "stacks" / "functions"
        )
        self._training = Place(
            network.vpc, [network.training_subnet], [network.training_security_group]
        )
        self._hosting = Place(
            network.vpc, network.hosting_subnets, [network.hosting_security_group]
        )
        self._jobs = JobRoles(
            self,
            "JobRoles",
            names=names,
            key=data.key,
            training=self._training,
            hosting=self._hosting,
        )
        definition = definition_of(environment, self._infrastructure(), launch, root)
        self.step_names = step_names(definition)
        self._allow_jobs_what_they_need(definition)
        role = self._pipeline_role(definition)
        self.pipeline = TrainingPipeline(
            self,
            "TrainingPipeline",
            names=names,
            definition=definition,
            role=role,
            description=(
                f"Trains, evaluates, registers, deploys and smoke-tests {environment.project}"
            ),
        )
        self.pipeline.node.add_dependency(self._jobs, self._smoke_test, self._guard)
        self.schedules = (
            self._schedules(root) if environment.schedules or environment.data.on_manifest else None
        )
        self._add_outputs()

    @property
    def dead_letters(self) -> sqs.IQueue:
        """Executions that the teardown has given up on."""
        return self._guard.dead_letters

    @property
    def functions(self) -> dict[str, lambda_.IFunction]:
        """The functions of this stack by their purpose."""
        found: dict[str, lambda_.IFunction] = {smoke_test.PURPOSE: self._smoke_test.caller.function}
        found[teardown_guard.PURPOSE] = self._guard.deleter.function
        if self.schedules:
            found[schedules.PURPOSE] = self.schedules.starter.function
        return found

    def _schedules(self, root: Path) -> Schedules:
        made = Schedules(
            self, "Schedules", names=self._names, functions=root / "stacks" / "functions"
        )
        made.node.add_dependency(self.pipeline)
        return made

    def _infrastructure(self) -> Infrastructure:
        return Infrastructure(
            code_uri=self._code.uri,
            kms_key_arn=self._data.key.key_arn,
            training_subnet_ids=(self._network.training_subnet.subnet_id,),
            training_security_group_ids=(self._network.training_security_group.security_group_id,),
            hosting_subnet_ids=tuple(subnet.subnet_id for subnet in self._network.hosting_subnets),
            hosting_security_group_ids=(self._network.hosting_security_group.security_group_id,),
            training_role_arn=self._names.role_arn("training"),
            evaluation_role_arn=self._names.role_arn("evaluation"),
            endpoint_role_arn=self._names.role_arn("endpoint"),
            smoke_test_function_arn=self._smoke_test.caller.function.function_arn,
            teardown_function_arn=self._guard.deleter.function.function_arn,
            training_image_uri=self._image_uri,
            file_system=self._file_system,
        )

    def _built_image(self, image: ImageStack) -> str:
        """The URI that the last build of this recipe published; CloudFormation reads it before it
        changes anything.
        """
        self.add_stack_dependency(image)
        parameter = cdk.CfnParameter(
            self,
            "TrainingImage",
            type="AWS::SSM::Parameter::Value<String>",
            default=image.image_parameter,
            description=(
                "Not found? Then this recipe has not been built: shoal image build"
                f" {self._names.environment.name}"
            ),
        )
        return parameter.value_as_string

    def _repository_of(self, image: str) -> str:
        """The image, or the repository of the one that was built: its digest is known at deployment
        only.
        """
        recipe = self._names.environment.training.build_image
        return (
            f"{self._names.repository_uri(recipe)}:built"
            if recipe and image == self._image_uri
            else image
        )

    def _allow_jobs_what_they_need(self, definition: dict[str, Any]) -> None:
        for role, type_with_image, type_with_volumes in (
            (self._jobs.training, "Training", "Training"),
            (self._jobs.evaluation, "Processing", "Processing"),
            (self._jobs.endpoint, "Model", "EndpointConfig"),
        ):
            role.allow_pull(map(self._repository_of, images(definition, type_with_image)))
            asked = limits(definition, type_with_volumes)
            if asked and asked.encrypts_volumes:
                role.allow_volumes(self._data.key)

    def _pipeline_role(self, definition: dict[str, Any]) -> PipelineRole:
        role = PipelineRole(self, "PipelineRole", names=self._names)
        for kind in ("Training", "Processing"):
            if asked := limits(definition, kind):
                role.allow_jobs(kind, asked, self._training, self._data.key)
        if limits(definition, "Model"):
            role.allow_models(self._hosting)
        if asked := limits(definition, "EndpointConfig"):
            role.allow_endpoints(asked)
        role.allow_registered(images(definition, "RegisterModel"))
        role.allow_functions(
            [
                self._names.function(purpose)
                for purpose in (smoke_test.PURPOSE, teardown_guard.PURPOSE)
            ]
        )
        role.allow_pass([self._jobs.training, self._jobs.evaluation, self._jobs.endpoint])
        role.allow_key(self._data.key)
        return role

    def _add_outputs(self) -> None:
        cdk.CfnOutput(self, "PipelineName", value=self._names.pipeline)
        cdk.CfnOutput(self, "PipelineArn", value=self._names.pipeline_arn)
        cdk.CfnOutput(self, "CodeUri", value=self._code.uri)
        cdk.CfnOutput(self, "TeardownDeadLetterQueueUrl", value=self._guard.dead_letters.queue_url)
