"""Retention and encryption of every log group below a scope."""

from __future__ import annotations

from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import IConstruct

from shoal.settings.names import Names


def configure_log_groups(scope: IConstruct, *, names: Names, key: kms.Key | kms.IKey) -> None:
    """Call it when everything below `scope` exists.

    The log groups of SageMaker's jobs belong to the account and are not here.
    """
    for construct in scope.node.find_all():
        if isinstance(construct, logs.CfnLogGroup):
            construct.retention_in_days = names.environment.observability.log_retention_days
            construct.kms_key_id = key.key_arn
