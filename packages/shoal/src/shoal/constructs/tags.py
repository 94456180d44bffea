"""The tags by which a person, a bill and `shoal destroy` find what belongs together."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from constructs import Construct

from shoal.settings.names import ENVIRONMENT_TAG, WORKLOAD_TAG, Names
from shoal.settings.settings import Environment

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
    tag(stack, own)
    for key, value in (_of_all(names.environment) | own).items():
        stack.tags.set_tag(key, value, _OVER_THE_STACKS)


def tag(scope: Construct, tags: Mapping[str, str]) -> None:
    """Tag everything in `scope`, and a stack itself; what is nearer to a resource counts."""
    for key, value in tags.items():
        cdk.Tags.of(scope).add(key, value)
        if isinstance(scope, cdk.Stack):
            scope.tags.set_tag(key, value, _OVER_THE_STACKS)


def _of_all(environment: Environment) -> dict[str, str]:
    return {"shoal:project": environment.project, ENVIRONMENT_TAG: environment.name}
