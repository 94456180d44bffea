"""The customer-managed key of an environment's data, with a policy that limits its use.

The CDK's default gives the account every action and leaves the rest to IAM. Here the account
administers the key, and principals that IAM allows to use it can read only what lies in this
environment's buckets, through S3. Stacks with something else to encrypt (log groups, a topic, a
linked file system) add the statement of that service. Source: AWS KMS developer guide, "Key
policies" and "kms:ViaService"; FSx for Lustre user guide, "Encrypting data at rest".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from shoal.constructs.roles.consumer_access import key_statements
from shoal.constructs.roles.removal_policy import removal_policy
from shoal.settings.loading.consumers import Consumer
from shoal.settings.names import Names
from shoal.settings.sections.file_system import DeploymentType

# Everything that changes or describes the key, and nothing that uses it: no CreateGrant, Decrypt,
# Encrypt, GenerateDataKey or ReEncrypt.
ADMINISTRATION = (
    "kms:CancelKeyDeletion",
    "kms:CreateAlias",
    "kms:DeleteAlias",
    "kms:DescribeKey",
    "kms:DisableKey",
    "kms:DisableKeyRotation",
    "kms:EnableKey",
    "kms:EnableKeyRotation",
    "kms:GetKeyPolicy",
    "kms:GetKeyRotationStatus",
    "kms:ListGrants",
    "kms:ListKeyPolicies",
    "kms:ListKeyRotations",
    "kms:ListResourceTags",
    "kms:PutKeyPolicy",
    "kms:RevokeGrant",
    "kms:RotateKeyOnDemand",
    "kms:ScheduleKeyDeletion",
    "kms:TagResource",
    "kms:UntagResource",
    "kms:UpdateAlias",
    "kms:UpdateKeyDescription",
)
_BUCKETS = ("data", "artifacts")
Row = tuple[str, list[str], dict[str, Any]]
"""Sid, actions and conditions of a statement of a key's policy."""


class DataKey(kms.Key):
    """Rotated every year.

    In a protected environment it outlives its stack, because what it encrypts does.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        consumers: Sequence[Consumer] = (),
    ) -> None:
        protect = names.environment.protect
        super().__init__(
            scope,
            construct_id,
            alias=f"alias/{names.shared_prefix}",
            description=f"Data and artifacts of {names.shared_prefix}",
            enable_key_rotation=True,
            pending_window=cdk.Duration.days(30 if protect else 7),
            removal_policy=removal_policy(protect),
            policy=iam.PolicyDocument(
                statements=[*_statements(names), *key_statements(names, consumers)]
            ),
        )


def _statements(names: Names) -> list[iam.PolicyStatement]:
    region, file_system = names.environment.region, names.environment.file_system
    through_s3 = {"kms:ViaService": f"s3.{region}.amazonaws.com"}
    # S3 names the bucket in the encryption context where bucket keys are on, as here, otherwise
    # the object.
    arns = [f"arn:aws:s3:::{names.bucket(purpose)}" for purpose in _BUCKETS]
    objects = {
        "kms:EncryptionContext:aws:s3:arn": [each for arn in arns for each in (arn, f"{arn}/*")]
    }
    rows: list[Row] = [
        ("AdministerKey", [*ADMINISTRATION], {}),
        (
            "ReadAndWriteBuckets",
            ["kms:Decrypt", "kms:GenerateDataKey"],
            {"StringEquals": through_s3, "StringLike": objects},
        ),
        # SageMaker's documentation requires it of a role that names a key for outputs, and does not
        # say through which service the call comes.
        ("EncryptOutputs", ["kms:Encrypt"], {}),
        (
            "LendKeyToServices",
            ["kms:CreateGrant"],
            {"Bool": {"kms:GrantIsForAWSResource": "true"}},
        ),
    ]
    if file_system is not None and file_system.deployment_type is DeploymentType.PERSISTENT_2:
        actions = ["kms:Decrypt", "kms:GenerateDataKeyWithoutPlaintext"]
        through_fsx = {"StringEquals": {"kms:ViaService": f"fsx.{region}.amazonaws.com"}}
        rows.append(("EncryptFileSystem", actions, through_fsx))
    return account_statements(names, rows)


def account_statements(names: Names, rows: Iterable[Row]) -> list[iam.PolicyStatement]:
    """Return statements of a key's policy: what IAM policies in this account may allow."""
    account = iam.AccountPrincipal(names.environment.account)
    return [
        iam.PolicyStatement(
            sid=sid, principals=[account], actions=actions, resources=["*"], conditions=conditions
        )
        for sid, actions, conditions in rows
    ]
