"""What every stack has: names, place, protection, tags and the settings of its log groups."""

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

from shoal.settings.names import ENVIRONMENT_TAG, WORKLOAD_TAG, Names
from shoal.settings.settings import Environment


class ShoalStack(cdk.Stack):
    """The stack `part` of an environment, or of one of its workloads (`Names.stack`).

    It is protected from deletion where the environment is; not with `is_replaceable`, for what
    loses nothing when it is deleted.
    """

    def __init__(
        self, scope: Construct, part: str, *, names: Names, is_replaceable: bool = False
    ) -> None:
        environment = names.environment
        super().__init__(
            scope,
            names.stack_id(part),
            stack_name=names.stack(part),
            env=cdk.Environment(account=environment.account, region=environment.region),
            synthesizer=cdk.DefaultStackSynthesizer(qualifier=names.qualifier),
            termination_protection=environment.protect and not is_replaceable,
            tags=environment.tags,  # of the stack itself; `tag_environment` has the resources'
        )

    @property
    def availability_zones(self) -> list[str]:
        """Return nothing: zones are chosen by id in the settings.

        The base class would ask AWS for their names during synth.
        """
        return []

    def add_outputs(self, **values: str) -> None:
        """Add an output for each value, under its own name."""
        for name, value in values.items():
            cdk.CfnOutput(self, name, value=value)

    def export_always(self, *values: str) -> None:
        """Export what another stack may import, whether one does or not.

        CloudFormation takes back no export that a deployed stack still imports, and an export that
        comes with a workload would change this template. Ids that are known already are no exports.
        """
        for value in values:
            if cdk.Token.is_unresolved(value):
                self.export_value(value)

    def read_parameter(self, construct_id: str, name: str, description: str) -> str:
        """Return a value of Parameter Store, which CloudFormation reads before any change."""
        parameter = cdk.CfnParameter(
            self,
            construct_id,
            type="AWS::SSM::Parameter::Value<String>",
            default=name,
            description=description,
        )
        return parameter.value_as_string


def come_after(first: ShoalStack, stage: cdk.Stage) -> None:
    """Let the stage's other stacks come after `first`, and go before it: nothing else ties them to
    it where the key is an organisation's.
    """
    for stack in stage.node.children:
        if isinstance(stack, ShoalStack) and stack is not first:
            stack.add_stack_dependency(first)


def removal_policy(protect: bool) -> cdk.RemovalPolicy:
    """Keep what a protected environment has; otherwise delete it.

    A stack whose first deployment fails takes along what it made: it would be empty, and its names
    taken when the stack is deployed again.
    """
    return cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if protect else cdk.RemovalPolicy.DESTROY


_OVER_THE_STACKS = 100
"""Priority of a tag over those that a stack is made with, which have 50."""


def tag_environment(stage: cdk.Stage, environment: Environment) -> None:
    """Tag everything in `stage` with its project and environment, and with the file's tags."""
    tag(stage, _of_all(environment) | environment.tags)


def tag_workload(stack: cdk.Stack, names: Names) -> None:
    """Tag what the stack has with its workload, and the stack itself, which the CDK leaves out
    (@aws-cdk/core:explicitStackTags): so `shoal destroy` finds the stacks of a workload that left
    its environment's file.
    """
    own = {WORKLOAD_TAG: names.prefix} | names.environment.workload_tags
    tag(stack, _of_all(names.environment) | own)


def tag(scope: Construct, tags: Mapping[str, str]) -> None:
    """Tag everything in `scope`, and a stack itself; what is nearer to a resource counts."""
    for key, value in tags.items():
        cdk.Tags.of(scope).add(key, value)
        if isinstance(scope, cdk.Stack):
            scope.tags.set_tag(key, value, _OVER_THE_STACKS)


def _of_all(environment: Environment) -> dict[str, str]:
    return {"shoal:project": environment.project, ENVIRONMENT_TAG: environment.name}


def configure_log_groups(scope: IConstruct, *, names: Names, key: kms.Key | kms.IKey) -> None:
    """Call it when everything below `scope` exists.

    The log groups of SageMaker's jobs belong to the account and are not here.
    """
    for construct in scope.node.find_all():
        if isinstance(construct, logs.CfnLogGroup):
            construct.retention_in_days = names.environment.observability.log_retention_days
            construct.kms_key_id = key.key_arn
