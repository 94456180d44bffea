"""The tags by which a person, a bill and `shoal destroy` find what belongs together."""

from __future__ import annotations

import aws_cdk as cdk

from shoal.settings.names import ENVIRONMENT_TAG, WORKLOAD_TAG, Names
from shoal.settings.settings import Environment


def tag_environment(stage: cdk.Stage, environment: Environment) -> None:
    """Tag everything in `stage` with its project and environment."""
    for key, value in _of_all(environment).items():
        cdk.Tags.of(stage).add(key, value)


def tag_workload(stack: cdk.Stack, names: Names) -> None:
    """Tag what the stack has with its workload, and the stack itself, which the CDK leaves out
    (@aws-cdk/core:explicitStackTags): so `shoal destroy` finds the stacks of a workload that left
    its environment's file.
    """
    cdk.Tags.of(stack).add(WORKLOAD_TAG, names.prefix)
    for key, value in (_of_all(names.environment) | {WORKLOAD_TAG: names.prefix}).items():
        stack.tags.set_tag(key, value)


def _of_all(environment: Environment) -> dict[str, str]:
    return {"shoal:project": environment.project, ENVIRONMENT_TAG: environment.name}
