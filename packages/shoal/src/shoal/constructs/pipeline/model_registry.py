"""The model package group in which a workload's pipeline registers its models."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from shoal.constructs.data.empty_on_delete import REGISTRY_PURPOSE, EmptyOnDelete
from shoal.constructs.roles.consumer_access import registry_policy
from shoal.constructs.shoal_stack import removal_policy
from shoal.settings.loading.consumers import Consumer
from shoal.settings.names import Names


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
