"""Custom resources that empty buckets and a model package group, which otherwise block the deletion
of their stack.

Their function is `packages/shoal/src/shoal/functions/empty_on_delete`; the CDK's own provider
would bring Node.js into the stack.
"""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from shoal.constructs.python_function import PythonFunction
from shoal.settings.names import Names

PURPOSE, REGISTRY_PURPOSE = "empty-on-delete", "empty-registry"
"""Of the functions that empty what all workloads share, and what one has."""
# The function acts only on what carries this tag. When an environment becomes protected,
# CloudFormation takes the tag away in the same update that removes the custom resource, and it
# removes resources last: the data stays.
EMPTY_TAG = "shoal:empty-on-delete"


class EmptyOnDelete(Construct):
    """Empties what `buckets` and `registry` get right before CloudFormation deletes it."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        purpose: str = PURPOSE,
    ) -> None:
        super().__init__(scope, construct_id)
        self._names = names
        self._emptier = PythonFunction(
            self,
            "Emptier",
            names=names,
            purpose=purpose,
            folder="empty_on_delete",
            description=f"Empties what {names.prefix} owns when its stack is deleted",
            timeout=cdk.Duration.minutes(15),
        )

    def buckets(self, buckets: Mapping[str, s3.Bucket]) -> None:
        """Empty these buckets (purpose -> bucket) on delete, all versions included."""
        names = [self._names.bucket(purpose) for purpose in buckets]
        self._emptier.role.allow_part("empty-buckets", buckets=names)
        for purpose, bucket in buckets.items():
            self._resource(
                bucket,
                f"{purpose.capitalize()}Bucket",
                "Custom::EmptyBucket",
                {"BucketName": bucket.bucket_name},
            )

    def registry(self, group: sagemaker.CfnModelPackageGroup) -> None:
        """Delete the model packages of `group` on delete: a group must be empty for that."""
        name = self._names.model_package_group
        group_arn = self._names.arn("sagemaker", f"model-package-group/{name}")
        self._emptier.role.allow_part("empty-registry")
        self._resource(
            group,
            "Registry",
            "Custom::EmptyModelPackageGroup",
            {"ModelPackageGroupName": name, "ModelPackageGroupArn": group_arn},
        )

    def _resource(
        self, owner: Construct, resource_id: str, resource_type: str, properties: Mapping[str, str]
    ) -> None:
        cdk.Tags.of(owner).add(EMPTY_TAG, "true")
        resource = cdk.CustomResource(
            self,
            resource_id,
            resource_type=resource_type,
            service_token=self._emptier.function.function_arn,
            properties=dict(properties),
        )
        # Deleted first, while the role may still do its work.
        resource.node.add_dependency(self._emptier, owner)
