"""Statements for registry and bucket that let environments in other accounts bring releases.

The role that brings archives to a consumer reads sealed ones, and lists them where models are kept
as files. Everybody in its account whom its account lets may see a version and its approval. Nothing
else is allowed: no other object or list, no write, no approval.

The account is the principal and a condition names the role, because AWS refuses a policy whose
principal does not exist, and the role is made after this (IAM user guide, "AWS JSON policy
elements: Principal"; "aws:PrincipalArn" is the ARN of the role, not of its session). The caller's
account must allow the same (S3 user guide, "Bucket owner granting cross-account bucket
permissions"; KMS developer guide, "Allowing users in other accounts to use a KMS key"; SageMaker
developer guide, "Cross-account discoverability" of model registries). Run against shoal-local; only
read for AWS.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aws_cdk import aws_iam as iam

from shoal.settings.loading.consumers import Consumer
from shoal.settings.names import SEALED, Names


def registry_policy(names: Names, consumers: Sequence[Consumer]) -> dict[str, Any] | None:
    """Return the policy of the model package group; None where nobody needs one."""
    if not consumers:
        return None
    group = names.arn("sagemaker", f"model-package-group/{names.model_package_group}")
    versions = names.arn("sagemaker", f"model-package/{names.model_package_group}/*")
    statements = [
        _statement("SeeRegistry", consumers, ["sagemaker:DescribeModelPackageGroup"], group),
        _statement("SeeVersions", consumers, ["sagemaker:DescribeModelPackage"], versions),
    ]
    return iam.PolicyDocument(statements=statements).to_json()


def bucket_statements(names: Names, consumers: Sequence[Consumer]) -> list[iam.PolicyStatement]:
    """Return the statements for the artifact bucket."""
    actions = ["s3:GetObject", "s3:GetObjectVersion"]
    bucket = f"arn:aws:s3:::{names.bucket('artifacts')}"
    read = _for_roles("ReadSealedArchives", consumers, actions, f"{bucket}/{SEALED}/*", {})
    if not names.environment.keeps_files:
        return read
    sealed = {"StringLike": {"s3:prefix": f"{SEALED}/*"}}
    return [*read, *_for_roles("ListSealedFiles", consumers, ["s3:ListBucket"], bucket, sealed)]


def image_statements(consumers: Sequence[Consumer]) -> list[iam.PolicyStatement]:
    """Return the statements for a repository of images: consumers' containers are pulled from it.

    Source: Amazon ECR user guide, "Private repository policy examples"; what SageMaker's roles need
    for a model besides (developer guide, "SageMaker AI execution roles") is allowed here, too.
    """
    words = ("BatchCheckLayerAvailability", "BatchGetImage", "GetDownloadUrlForLayer")
    actions = [f"ecr:{each}" for each in words]
    return [_statement("PullImages", consumers, actions)] if consumers else []


def _for_roles(
    sid: str,
    consumers: Sequence[Consumer],
    actions: list[str],
    resource: str,
    conditions: dict[str, Any],
) -> list[iam.PolicyStatement]:
    """Return a statement that holds only for the roles that bring archives; none for nobody."""
    roles = {"ArnLike": {"aws:PrincipalArn": [each.role_arn for each in consumers]}}
    return [_statement(sid, consumers, actions, resource, conditions | roles)] if consumers else []


def _statement(
    sid: str,
    consumers: Sequence[Consumer],
    actions: list[str],
    resource: str | None = None,
    conditions: dict[str, Any] | None = None,
) -> iam.PolicyStatement:
    """Return a statement of what the consumers' accounts may delegate to their own principals."""
    accounts = sorted({each.account for each in consumers})
    return iam.PolicyStatement(
        sid=sid,
        principals=[iam.AccountPrincipal(account) for account in accounts],
        actions=actions,
        resources=[resource] if resource else None,
        conditions=conditions,
    )
