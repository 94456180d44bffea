"""Consumers in other accounts go in; what their policies need on this side comes out: statements for registry, bucket and key.

A consumer reads versions of the registry and makes models of them; its serving role and the proof of its deployments read the archives
of models. Nothing else: no other object, no list, no write, no approval. A version has to stay readable after the next is pinned, because a
rollback goes back to it; so it is every version's archive, not the pinned one's, and SageMaker refuses models of versions that are not
approved.
Source: SageMaker developer guide, "Deploy a model version from a different account".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aws_cdk import aws_iam as iam

from config.consumers import Consumer
from config.names import Names
from config.release import COPIES

_TRAINED = "training/*/output/model.tar.gz"
"""Where training jobs leave their models, below the folder of their execution (pipelines/requests.py)."""
_COPIED = f"{COPIES}/*/model.tar.gz"
"""Where `shoal promote --copy` leaves them."""
_READ_VERSION = ("sagemaker:DescribeModelPackage", "sagemaker:CreateModel")


def registry_policy(names: Names, consumers: Sequence[Consumer]) -> dict[str, Any] | None:
    """The policy of the model package group; None where nobody needs one."""
    if not consumers:
        return None
    group, versions = (names.arn("sagemaker", f"{kind}/{names.model_package_group}") for kind in ("model-package-group", "model-package"))
    statements = [
        _statement("SeeRegistry", consumers, ["sagemaker:DescribeModelPackageGroup"], group),
        _statement("ReadVersions", consumers, [*_READ_VERSION], f"{versions}/*"),
    ]
    return iam.PolicyDocument(statements=statements).to_json()  # type: ignore[no-any-return]


def bucket_statements(names: Names, consumers: Sequence[Consumer]) -> list[iam.PolicyStatement]:
    """For the artifact bucket: whoever a consumer's own policies let may ask for an archive; only those two roles can decrypt it."""
    archives = f"arn:aws:s3:::{names.bucket('artifacts')}/{_archives(names)}"
    return [_statement("ReadModelArchives", consumers, ["s3:GetObject", "s3:GetObjectVersion"], archives)] if consumers else []


def key_statements(names: Names, consumers: Sequence[Consumer]) -> list[iam.PolicyStatement]:
    """For the key of the bucket. S3 names the bucket, not the object, to KMS where bucket keys are on: its policy does the rest."""
    bucket = f"arn:aws:s3:::{names.bucket('artifacts')}"
    conditions = {
        "StringEquals": {"kms:ViaService": f"s3.{names.environment.region}.amazonaws.com"},
        "StringLike": {"kms:EncryptionContext:aws:s3:arn": [bucket, f"{bucket}/{_archives(names)}"]},
        "ArnLike": {"aws:PrincipalArn": [arn for each in consumers for arn in (each.serving_role_arn, each.proof_role_arn)]},
    }
    return [_statement("DecryptModelArchives", consumers, ["kms:Decrypt"], "*", conditions)] if consumers else []


def _archives(names: Names) -> str:
    """Where the archives of the environment's own registry lie, as a pattern."""
    return _TRAINED if names.environment.promoted_from is None else _COPIED


def _statement(
    sid: str, consumers: Sequence[Consumer], actions: Sequence[str], resource: str, conditions: dict[str, Any] | None = None
) -> iam.PolicyStatement:
    """What the consumers' accounts may hand on to their own principals."""
    principals = [iam.AccountPrincipal(account) for account in sorted({each.account for each in consumers})]
    return iam.PolicyStatement(sid=sid, principals=[*principals], actions=[*actions], resources=[resource], conditions=conditions)
