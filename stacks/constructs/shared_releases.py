"""Consumers in other accounts go in; what their policies need on this side comes out: statements
for registry, bucket and key.

A consumer reads versions of the registry and makes models of them; its serving role and the proof
of its deployments read the archives of models. Nothing else: no other object, no list, no write, no
approval. Which versions: those that its file pins and replaced, by name, or with `shared_versions:
every` all of them. SageMaker refuses models of versions that are not approved. Source: SageMaker
developer guide, "Deploy a model version from a different account".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from aws_cdk import aws_iam as iam

from config.consumers import Consumer
from config.names import Names
from config.release import COPIES
from config.settings import SharedVersions

_TRAINED = "training/*/output/model.tar.gz"
"""Where training jobs leave their models, below the folder of their execution
(pipelines/requests.py).
"""
_COPIED = f"{COPIES}/*/model.tar.gz"
"""Where `shoal promote --copy` leaves them."""
_READ_VERSION = ("sagemaker:DescribeModelPackage", "sagemaker:CreateModel")
_READ_ARCHIVE = ("s3:GetObject", "s3:GetObjectVersion")


def registry_policy(names: Names, consumers: Sequence[Consumer]) -> dict[str, Any] | None:
    """The policy of the model package group; None where nobody needs one."""
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
    """For the artifact bucket: whoever a consumer's own policies let may ask for an archive; only
    those two roles can decrypt it.
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
    """For the key of the bucket.

    S3 names the bucket, not the object, to KMS where bucket keys are on: its policy does the rest.
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
    """Who takes releases from here and what each may read, as a person reads it."""
    every = "every version" if _shares_every(names) else ""
    return "; ".join(
        f"{each.environment} ({each.account}) reads {every or _named(each)}" for each in consumers
    )


def _named(consumer: Consumer) -> str:
    """The versions; whose archives lie where none are shared, or have odd names, cannot be
    served.
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
    """Each account with its consumers, where versions are named one by one."""
    for account in sorted({each.account for each in consumers if not _shares_every(names)}):
        yield account, [each for each in consumers if each.account == account]


def _keys(consumers: Sequence[Consumer]) -> list[str]:
    return [key for each in consumers for key in each.archives]


def _archives(names: Names) -> str:
    """Where the archives of the environment's own registry lie, as a pattern."""
    return _TRAINED if names.environment.promoted_from is None else _COPIED


def _statement(
    sid: str,
    consumers: Sequence[Consumer],
    actions: Sequence[str],
    resources: Sequence[str],
    conditions: dict[str, Any] | None = None,
) -> iam.PolicyStatement:
    """What the consumers' accounts may hand on to their own principals."""
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
