"""The customer-managed key of an environment's data, with a policy that limits its use.

The CDK's default gives the account every action and leaves the rest to IAM. Here the account
administers the key, and principals that IAM allows to use it can read only what lies in this
environment's buckets, through S3. Stacks with something else to encrypt (log groups, a topic, a
linked file system) add the statement of that service. Source: AWS KMS developer guide, "Key
policies" and "kms:ViaService"; FSx for Lustre user guide, "Encrypting data at rest".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    *(
        "kms:CancelKeyDeletion",
        "kms:CreateAlias",
        "kms:DeleteAlias",
        "kms:DescribeKey",
        "kms:DisableKey",
        "kms:DisableKeyRotation",
    ),
    *(
        "kms:EnableKey",
        "kms:EnableKeyRotation",
        "kms:GetKeyPolicy",
        "kms:GetKeyRotationStatus",
        "kms:ListGrants",
        "kms:ListKeyPolicies",
    ),
    *(
        "kms:ListKeyRotations",
        "kms:ListResourceTags",
        "kms:PutKeyPolicy",
        "kms:RevokeGrant",
        "kms:RotateKeyOnDemand",
    ),
    *(
        "kms:ScheduleKeyDeletion",
        "kms:TagResource",
        "kms:UntagResource",
        "kms:UpdateAlias",
        "kms:UpdateKeyDescription",
    ),
)
_BUCKETS = ("data", "artifacts")


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
    through_s3 = {"kms:ViaService": f"s3.{names.environment.region}.amazonaws.com"}
    statements = [
        _account("AdministerKey", ADMINISTRATION, names),
        _account(
            "ReadAndWriteBuckets",
            ["kms:Decrypt", "kms:GenerateDataKey"],
            names,
            {"StringEquals": through_s3, "StringLike": _objects(names, _BUCKETS)},
        ),
        # SageMaker's documentation requires it of a role that names a key for outputs, and does not
        # say through which service the call comes.
        _account("EncryptOutputs", ["kms:Encrypt"], names),
        _account(
            "LendKeyToServices",
            ["kms:CreateGrant"],
            names,
            {"Bool": {"kms:GrantIsForAWSResource": "true"}},
        ),
    ]
    file_system = names.environment.file_system
    if file_system is not None and file_system.deployment_type is DeploymentType.PERSISTENT_2:
        through_fsx = {"kms:ViaService": f"fsx.{names.environment.region}.amazonaws.com"}
        actions = ["kms:Decrypt", "kms:GenerateDataKeyWithoutPlaintext"]
        statements.append(
            _account("EncryptFileSystem", actions, names, {"StringEquals": through_fsx})
        )
    return statements


def _account(
    sid: str, actions: Sequence[str], names: Names, conditions: Mapping[str, Any] | None = None
) -> iam.PolicyStatement:
    """Return a statement of what IAM policies in this account may allow."""
    principal = iam.AccountPrincipal(names.environment.account)
    return iam.PolicyStatement(
        sid=sid,
        principals=[principal],
        actions=[*actions],
        resources=["*"],
        conditions=dict(conditions) if conditions else None,
    )


def _objects(names: Names, purposes: Sequence[str]) -> dict[str, list[str]]:
    """Return the encryption context of the buckets' objects.

    S3 names the bucket where bucket keys are on, as here, otherwise the object.
    """
    arns = [f"arn:aws:s3:::{names.bucket(purpose)}" for purpose in purposes]
    return {
        "kms:EncryptionContext:aws:s3:arn": [each for arn in arns for each in (arn, f"{arn}/*")]
    }
