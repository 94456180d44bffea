"""The model package group in which a workload's pipeline registers its models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from config.consumers import Consumer
from config.names import Names
from stacks.constructs.consumer_access import registry_policy
from stacks.constructs.empty_on_delete import REGISTRY_PURPOSE, EmptyOnDelete


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
        functions: Path,
        consumers: Sequence[Consumer] = (),
    ) -> None:
        super().__init__(scope, construct_id)
        protect = names.environment.protect
        self.group = sagemaker.CfnModelPackageGroup(
            self,
            "Group",
            model_package_group_name=names.model_package_group,
            model_package_group_description=f"Models trained by the pipeline {names.pipeline}",
            model_package_group_policy=registry_policy(names, consumers),
        )
        self.group.apply_removal_policy(
            # A stack whose first deployment fails takes its empty group with it.
            cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if protect else cdk.RemovalPolicy.DESTROY
        )
        if not protect:
            emptier = EmptyOnDelete(
                self, "EmptyOnDelete", names=names, functions=functions, purpose=REGISTRY_PURPOSE
            )
            emptier.registry(self.group)
