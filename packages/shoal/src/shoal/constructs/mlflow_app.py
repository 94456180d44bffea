"""A serverless MLflow App of SageMaker's, which keeps the files of runs in the artifact bucket."""

from aws_cdk import aws_kms as kms
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from shoal.constructs.roles.actor_role import ActorRole
from shoal.constructs.shoal_stack import ShoalStack, removal_policy
from shoal.settings.names import Names


class MlflowApp(Construct):
    """It stays, as the bucket does, when the stack of a protected environment is deleted."""

    def __init__(
        self, scope: ShoalStack, construct_id: str, *, names: Names, key: kms.IKey
    ) -> None:
        super().__init__(scope, construct_id)
        self._stack, self._parameter = scope, names.mlflow_parameter
        role = ActorRole(
            self,
            "Role",
            names=names,
            actor="mlflow",
            service="sagemaker",
            description="Keeps the files of MLflow's runs.",
        )
        role.allow_part("mlflow-store")
        role.allow_part("encryption", key=key.key_arn)
        app = sagemaker.CfnMlflowApp(
            self,
            "App",
            name=names.shared_prefix,
            artifact_store_uri=f"s3://{names.bucket('artifacts')}/mlflow",
            role_arn=role.role_arn,
        )
        app.apply_removal_policy(removal_policy(names.environment.protect))
        app.node.add_dependency(role)
        ssm.StringParameter(self, "Arn", parameter_name=self._parameter, string_value=app.attr_arn)

    def arn_in(self, stack: ShoalStack) -> str:
        """Return the ARN as `stack` sees it, which is deployed after this one's."""
        stack.add_stack_dependency(self._stack)
        written = f"Written by the stack {self._stack.stack_name}"
        return stack.read_parameter("MlflowApp", self._parameter, written)
