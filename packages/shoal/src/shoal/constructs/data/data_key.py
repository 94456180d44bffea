"""The customer-managed key of an environment's data, with a policy that limits its use; or the key
that the organisation has.

The CDK's default gives the account every action and leaves the rest to IAM. Here the account
administers the key, and `shoal.settings.key_policy` says what may use it. Source: AWS KMS developer
guide, "Key policies".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from shoal.constructs.shoal_stack import removal_policy
from shoal.settings.names import Names

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


def environment_key(
    scope: Construct,
    names: Names,
    *,
    alias: str,
    description: str,
    statements: Iterable[Mapping[str, Any]],
) -> kms.IKey:
    """Return the organisation's key, or make one, rotated every year.

    In a protected environment it outlives its stack, because what it encrypts does. Nobody but its
    owner changes the policy of the organisation's.
    """
    environment = names.environment
    if arn := environment.organisation.kms_key_arn:
        return kms.Key.from_key_arn(scope, "Key", arn)
    administration = iam.PolicyStatement(
        sid="AdministerKey",
        principals=[iam.AccountPrincipal(environment.account)],
        actions=[*ADMINISTRATION],
        resources=["*"],
    )
    uses = map(iam.PolicyStatement.from_json, statements)
    return kms.Key(
        scope,
        "Key",
        alias=f"alias/{alias}",
        description=description,
        enable_key_rotation=True,
        pending_window=cdk.Duration.days(30 if environment.protect else 7),
        removal_policy=removal_policy(environment.protect),
        policy=iam.PolicyDocument(statements=[administration, *uses]),
    )
