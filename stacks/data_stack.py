"""The stack of what one environment keeps: data, artifacts and logs."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from constructs import Construct

from config.consumers import Consumer
from config.names import Names
from stacks.constructs.empty_on_delete import EmptyOnDelete
from stacks.constructs.storage import Storage


class DataStack(cdk.Stack):
    """Key and buckets; `consumers` bring sealed archives from here.

    In a protected environment all of them outlive the stack.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        env: cdk.Environment,
        consumers: Sequence[Consumer] = (),
    ) -> None:
        protect = names.environment.protect
        super().__init__(
            scope,
            construct_id,
            stack_name=names.stack("data"),
            env=env,
            termination_protection=protect,
        )
        storage = Storage(self, "Storage", names=names, consumers=consumers)
        self.key = storage.key
        self.data_bucket = storage.data
        self.artifact_bucket = storage.artifacts
        if not protect:
            emptier = EmptyOnDelete(self, "EmptyOnDelete", names=names)
            emptier.buckets(
                {"data": storage.data, "artifacts": storage.artifacts, "logs": storage.logs}
            )
        self._add_outputs()

    def _add_outputs(self) -> None:
        cdk.CfnOutput(self, "DataBucketName", value=self.data_bucket.bucket_name)
        cdk.CfnOutput(self, "ArtifactBucketName", value=self.artifact_bucket.bucket_name)
        cdk.CfnOutput(self, "KeyArn", value=self.key.key_arn)
