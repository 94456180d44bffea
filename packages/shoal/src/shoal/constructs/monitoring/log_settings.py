"""Retention and encryption of every log group below a scope."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import IConstruct

from shoal.settings.names import Names


def configure_log_groups(scope: IConstruct, *, names: Names, key: kms.Key) -> None:
    """Call it when everything below `scope` exists.

    The log groups of SageMaker's jobs belong to the account and are not here.
    """
    _let_logs_encrypt(key, names)
    for construct in scope.node.find_all():
        if isinstance(construct, logs.CfnLogGroup):
            construct.retention_in_days = names.environment.observability.log_retention_days
            construct.kms_key_id = key.key_arn


def _let_logs_encrypt(key: kms.Key, names: Names) -> None:
    """Let CloudWatch Logs use the key.

    Source: CloudWatch Logs user guide, "Encrypt log data in CloudWatch Logs using AWS Key
    Management Service".
    """
    key.add_to_resource_policy(
        iam.PolicyStatement(
            sid="LogsEncrypts",
            principals=[iam.ServicePrincipal(f"logs.{names.environment.region}.amazonaws.com")],
            # Not DescribeKey: it has no encryption context, so the condition would never hold
            # (packages/shoal/tests/identity).
            actions=["kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"],
            resources=["*"],
            conditions={
                "ArnLike": {"kms:EncryptionContext:aws:logs:arn": names.arn("logs", "log-group:*")}
            },
        )
    )
