"""The stack of what one environment keeps: data, artifacts and logs."""

from collections.abc import Sequence

from constructs import Construct

from shoal.constructs.mlflow_app import MlflowApp
from shoal.constructs.shoal_stack import ShoalStack
from shoal.constructs.storage import EmptyOnDelete, Storage
from shoal.settings.loading.consumers import Consumer
from shoal.settings.names import Names


class DataStack(ShoalStack):
    """Key, buckets, and an MLflow App where one is asked for; `consumers` bring sealed archives
    from here.

    In a protected environment all of them outlive the stack.
    """

    def __init__(
        self, scope: Construct, *, names: Names, consumers: Sequence[Consumer] = ()
    ) -> None:
        super().__init__(scope, "data", names=names)
        storage = Storage(self, "Storage", names=names, consumers=consumers)
        self.key = storage.key
        if not names.environment.protect:
            EmptyOnDelete(self, "EmptyOnDelete", names=names).buckets(storage.own)
        self.mlflow_app: MlflowApp | None = None
        if names.environment.mlflow and names.environment.mlflow.create:
            self.mlflow_app = MlflowApp(self, "Mlflow", names=names, key=storage.key)
        self.add_outputs(
            DataBucketName=storage.data.bucket_name,
            ArtifactBucketName=storage.artifacts.bucket_name,
            KeyArn=storage.key.key_arn,
        )
