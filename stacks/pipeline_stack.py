"""The pipeline of one environment with its roles, its functions and the teardown guard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aws_cdk as cdk
from constructs import Construct

from config.consumers import Consumer
from config.names import Names
from config.settings import Environment
from pipelines.definition import Infrastructure
from pipelines.launch import Launch
from pipelines.own_pipeline import definition_of
from stacks.constructs.code_archive import CodeArchive
from stacks.constructs.compare import Compare
from stacks.constructs.guard_rails import Place
from stacks.constructs.job_roles import JobRoles
from stacks.constructs.model_registry import ModelRegistry
from stacks.constructs.pipeline_role import PipelineRole
from stacks.constructs.python_function import PythonFunction
from stacks.constructs.schedules import Schedules
from stacks.constructs.seal import Seal
from stacks.constructs.security_groups import TrainingGroup
from stacks.constructs.smoke_test import SmokeTest
from stacks.constructs.teardown_guard import TeardownGuard
from stacks.constructs.training_pipeline import TrainingPipeline, step_names
from stacks.data_stack import DataStack
from stacks.network_stack import NetworkStack

if TYPE_CHECKING:  # see stacks.stage
    from stacks.file_system_stack import FileSystemStack
    from stacks.image_stack import ImageStack


class PipelineStack(cdk.Stack):
    """What one workload has; `consumers` serve what it registers.

    The registry in it outlives the stack of a protected environment. `requests` is what the smoke
    test sends; None where there is no endpoint.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        launch: Launch,
        root: Path,
        requests: bytes | None,
        network: NetworkStack,
        data: DataStack,
        file_system: FileSystemStack | None = None,
        image: ImageStack | None = None,
        env: cdk.Environment,
        consumers: Sequence[Consumer] = (),
    ) -> None:
        environment = names.environment
        super().__init__(
            scope,
            construct_id,
            stack_name=names.stack("pipeline"),
            env=env,
            termination_protection=environment.protect,
        )
        built_image = _built_image(self, names, image) if image else None
        mounted = file_system.mounted_in(self) if file_system else None
        registry = ModelRegistry(self, "Registry", names=names, consumers=consumers)
        code = CodeArchive(self, "Code", source_dir=root / environment.training.source_dir)
        seal = Seal(self, "Seal", names=names, key=data.key)
        smoke_test, guard = None, None
        if requests is not None:
            smoke_test = SmokeTest(self, "SmokeTest", names=names, requests=requests)
            guard = TeardownGuard(self, "TeardownGuard", names=names)
        compare = None
        if environment.compared_metrics:
            compare = Compare(self, "Compare", names=names)
        training = self._training_place(environment, network)
        hosting = Place(network.vpc, network.hosting_subnets, [network.hosting_security_group])
        jobs = JobRoles(
            self, "JobRoles", names=names, key=data.key, training=training, hosting=hosting
        )
        infrastructure = Infrastructure(
            code_uri=code.uri,
            kms_key_arn=data.key.key_arn,
            training_subnet_ids=training.subnet_ids,
            training_security_group_ids=training.security_group_ids,
            hosting_subnet_ids=hosting.subnet_ids,
            hosting_security_group_ids=hosting.security_group_ids,
            training_role_arn=names.role_arn("training"),
            evaluation_role_arn=names.role_arn("evaluation"),
            endpoint_role_arn=names.role_arn("endpoint") if jobs.endpoint else "",
            seal_function_arn=_arn(seal.sealer),
            smoke_test_function_arn=_arn(smoke_test.caller) if smoke_test else "",
            teardown_function_arn=_arn(guard.deleter) if guard else "",
            compare_function_arn=_arn(compare.comparer) if compare else None,
            training_image_uri=built_image,
            file_system=mounted,
        )
        definition = definition_of(environment, infrastructure, launch, root)
        jobs.allow_definition(definition, built_image)
        self.functions = [
            seal.sealer,
            *([smoke_test.caller] if smoke_test else []),
            *([guard.deleter] if guard else []),
            *([compare.comparer] if compare else []),
        ]
        self.step_functions = [each.purpose for each in self.functions]
        role = PipelineRole(
            self,
            "PipelineRole",
            names=names,
            definition=definition,
            training=training,
            hosting=hosting,
            key=data.key,
            jobs=jobs.all,
            functions=self.functions,
        )
        pipeline = TrainingPipeline(
            self,
            "TrainingPipeline",
            names=names,
            definition=definition,
            role=role,
            description=_description(environment),
        )
        parts = (jobs, seal, smoke_test, guard, compare, registry)
        pipeline.node.add_dependency(*filter(None, parts))
        self.schedules = self._add_schedules(names, definition)
        if self.schedules:
            self.schedules.node.add_dependency(pipeline)
            self.functions.append(self.schedules.starter)
        self.step_names = step_names(definition)
        self._add_outputs(names, code, guard)

    def _training_place(self, environment: Environment, network: NetworkStack) -> Place:
        """Return where training runs; each of several workloads has a security group of its own."""
        groups = [network.training_security_group]
        existing = environment.network.existing
        if environment.workloads and not (existing and existing.training_security_group_id):
            groups.append(TrainingGroup(self, "TrainingGroup", vpc=network.vpc))
        return Place(network.vpc, [network.training_subnet], groups)

    def _add_schedules(self, names: Names, definition: Mapping[str, Any]) -> Schedules | None:
        """Return what starts the pipeline by itself, if anything does."""
        environment = names.environment
        if not environment.schedules and not environment.data.on_manifest:
            return None
        parameters = [each["Name"] for each in definition.get("Parameters", [])]
        return Schedules(self, "Schedules", names=names, parameters=parameters)

    def _add_outputs(self, names: Names, code: CodeArchive, guard: TeardownGuard | None) -> None:
        cdk.CfnOutput(self, "PipelineName", value=names.pipeline)
        cdk.CfnOutput(self, "PipelineArn", value=names.pipeline_arn)
        cdk.CfnOutput(self, "ModelPackageGroupName", value=names.model_package_group)
        cdk.CfnOutput(self, "CodeUri", value=code.uri)
        if guard:
            url = guard.dead_letters.queue_url
            cdk.CfnOutput(self, "TeardownDeadLetterQueueUrl", value=url)


def _arn(function: PythonFunction) -> str:
    return function.function.function_arn


def _description(environment: Environment) -> str:
    if environment.endpoint is None:
        return f"Trains, evaluates, seals and registers {environment.project}"
    return f"Trains, evaluates, seals, registers, deploys and tests {environment.project}"


def _built_image(stack: cdk.Stack, names: Names, image: ImageStack) -> str:
    """Return the URI that the last build of this recipe published; CloudFormation reads it before
    it changes anything.
    """
    stack.add_stack_dependency(image)
    parameter = cdk.CfnParameter(
        stack,
        "TrainingImage",
        type="AWS::SSM::Parameter::Value<String>",
        default=image.image_parameter,
        description=(
            "Not found? Then this recipe has not been built: shoal image build"
            f" {names.environment.name}"
        ),
    )
    return parameter.value_as_string
