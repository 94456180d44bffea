"""Statements for registry, bucket and key that let environments in other accounts serve releases.

A consumer reads versions of the registry and creates models from them; its serving role and the
proof of its deployments read the models' archives. Nothing else is allowed: no other object, no
list, no write, no approval. Allowed versions are those that its file pins and replaced, by name, or
with `shared_versions: every` all of them. SageMaker refuses models of versions that are not
approved. Source: SageMaker developer guide, "Deploy a model version from a different account".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from aws_cdk import aws_iam as iam

from config.consumers import Consumer
from config.names import SEALED, Names
from config.release import COPIES
from config.settings import SharedVersions

_SEALED = f"{SEALED}/*/model.tar.gz"
"""Where sealed archives lie (stacks/functions/seal)."""
_COPIED = f"{COPIES}/*/model.tar.gz"
"""Where `shoal promote --copy` leaves them."""
_READ_VERSION = ("sagemaker:DescribeModelPackage", "sagemaker:CreateModel")
_READ_ARCHIVE = ("s3:GetObject", "s3:GetObjectVersion")


def registry_policy(names: Names, consumers: Sequence[Consumer]) -> dict[str, Any] | None:
    """Return the policy of the model package group; None where nobody needs one."""
    if not consumers:
        return None
    group, versions = (
        names.arn("sagemaker", f"{kind}/{names.model_package_group}")
        for kind in ("model-package-group", "model-package")
    )
    statements = [
        _statement("SeeRegistry", consumers, ["sagemaker:DescribeModelPackageGroup"], [group])
    ]
    if _shares_every(names):
        statements.append(_statement("ReadVersions", consumers, _READ_VERSION, [f"{versions}/*"]))
    for account, readers in _by_account(names, consumers):
        named = [arn for each in readers for arn in each.versions]
        statements += (
            [_statement(f"ReadPinnedVersions{account}", readers, _READ_VERSION, named)]
            if named
            else []
        )
    return iam.PolicyDocument(statements=statements).to_json()  # type: ignore[no-any-return]


def bucket_statements(names: Names, consumers: Sequence[Consumer]) -> list[iam.PolicyStatement]:
    """Return the statements for the artifact bucket.

    They let the consumers' accounts delegate reading; only the two roles of a consumer can decrypt
    an archive.
    """
    bucket = f"arn:aws:s3:::{names.bucket('artifacts')}"
    if consumers and _shares_every(names):
        return [
            _statement(
                "ReadModelArchives", consumers, _READ_ARCHIVE, [f"{bucket}/{_archives(names)}"]
            )
        ]
    by_account = [
        (account, readers, _keys(readers)) for account, readers in _by_account(names, consumers)
    ]
    return [
        _statement(
            f"ReadPinnedArchives{account}",
            readers,
            _READ_ARCHIVE,
            [f"{bucket}/{key}" for key in keys],
        )
        for account, readers, keys in by_account
        if keys
    ]


def key_statements(names: Names, consumers: Sequence[Consumer]) -> list[iam.PolicyStatement]:
    """Return the statements for the bucket's key.

    S3 names the bucket, not the object, to KMS where bucket keys are on; the bucket's policy names
    the objects.
    """
    reading = [each for each in consumers if each.archives or _shares_every(names)]
    bucket = f"arn:aws:s3:::{names.bucket('artifacts')}"
    conditions = {
        "StringEquals": {"kms:ViaService": f"s3.{names.environment.region}.amazonaws.com"},
        "StringLike": {
            "kms:EncryptionContext:aws:s3:arn": [bucket, f"{bucket}/{_archives(names)}"]
        },
        "ArnLike": {
            "aws:PrincipalArn": [
                arn for each in reading for arn in (each.serving_role_arn, each.proof_role_arn)
            ]
        },
    }
    return (
        [_statement("DecryptModelArchives", reading, ["kms:Decrypt"], ["*"], conditions)]
        if reading
        else []
    )


def shared_text(names: Names, consumers: Sequence[Consumer]) -> str:
    """Return who takes releases from here and what each may read, for people."""
    every = "every version" if _shares_every(names) else ""
    return "; ".join(
        f"{each.environment} ({each.account}) reads {every or _named(each)}" for each in consumers
    )


def _named(consumer: Consumer) -> str:
    """Return the versions. A version cannot be served if its archive lies outside the shared folder
    or has an odd name.
    """
    versions, without = consumer.versions, len(consumer.versions) - len(consumer.archives)
    lacks = f" ({without} without an archive that is shared)" if without else ""
    return (
        ", ".join(arn.partition("model-package/")[2] for arn in versions) + lacks
        if versions
        else "nothing"
    )


def _shares_every(names: Names) -> bool:
    return names.environment.shared_versions is SharedVersions.EVERY


def _by_account(
    names: Names, consumers: Sequence[Consumer]
) -> Iterator[tuple[str, list[Consumer]]]:
    """Yield each account with its consumers, where versions are named one by one."""
    for account in sorted({each.account for each in consumers if not _shares_every(names)}):
        yield account, [each for each in consumers if each.account == account]


def _keys(consumers: Sequence[Consumer]) -> list[str]:
    return [key for each in consumers for key in each.archives]


def _archives(names: Names) -> str:
    """Return a pattern of the archives of the environment's own registry."""
    return _SEALED if names.environment.promoted_from is None else _COPIED


def _statement(
    sid: str,
    consumers: Sequence[Consumer],
    actions: Sequence[str],
    resources: Sequence[str],
    conditions: dict[str, Any] | None = None,
) -> iam.PolicyStatement:
    """Return a statement of what the consumers' accounts may delegate to their own principals."""
    principals = [
        iam.AccountPrincipal(account) for account in sorted({each.account for each in consumers})
    ]
    return iam.PolicyStatement(
        sid=sid,
        principals=[*principals],
        actions=[*actions],
        resources=sorted(set(resources)),
        conditions=conditions,
    )
