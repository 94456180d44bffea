"""Channels that lie in buckets outside the environment: which roles read them, and what the account
that owns them must allow.

The account is the principal and a condition names the roles, because AWS refuses a policy whose
principal does not exist, and an owner may allow before the first deployment (IAM user guide, "AWS
JSON policy elements: Principal"). Both accounts must allow the same (S3 user guide, "Bucket owner
granting cross-account bucket permissions"; KMS developer guide, "Allowing users in other accounts
to use a KMS key"). Run against shoal-local; only read for AWS.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.settings.names import Names
from shoal.settings.sections.channels import PlacedChannel
from shoal.settings.settings import Environment

_VERSION = "2012-10-17"


@dataclass(frozen=True)
class ExternalFolder:
    """A folder of a bucket that is none of the environment's."""

    bucket: str
    key: str
    """What the keys of its objects begin with; a slash is at its end."""
    account: str
    kms_key_arn: str | None

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    @property
    def keys(self) -> str:
        return f"{self.key}*"

    @property
    def arns(self) -> list[str]:
        """The bucket's ARN, and a pattern of its objects'."""
        return [f"arn:aws:s3:::{self.bucket}", f"arn:aws:s3:::{self.bucket}/{self.keys}"]


@dataclass(frozen=True)
class Grant:
    """What the owner of a bucket adds to its policy, and to those of the keys of its objects."""

    account: str
    bucket: str
    bucket_policy: dict[str, Any]
    key_policies: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By the ARN of the key."""


def external_folders(environment: Environment, actor: str = "training") -> list[ExternalFolder]:
    """Return what the jobs of `actor` (training, evaluation) read in other buckets."""
    channels = environment.data.channels
    names = [environment.evaluation.channel] if actor == "evaluation" else channels
    return _folders(channels[name] for name in names if name in channels)


def every_external_folder(environment: Environment) -> list[ExternalFolder]:
    """Return what jobs of all workloads read in other buckets."""
    every = (environment.data, *(each.data for each in environment.workloads.values()))
    return _folders(channel for data in every for channel in data.channels.values())


def _folders(channels: Iterable[PlacedChannel]) -> list[ExternalFolder]:
    folders = {}
    for each in channels:
        if each.uri and each.account:
            bucket, _, key = each.uri.removeprefix("s3://").partition("/")
            folders[each.uri] = ExternalFolder(bucket, key, each.account, each.kms_key_arn)
    return list(folders.values())


def grants(views: Sequence[Environment]) -> list[Grant]:
    """Return what other accounts must allow the jobs of an environment, which has these views.

    What its own account owns needs no word of another.
    """
    readers = {
        Names(view).role_arn(actor): external_folders(view, actor)
        for view in views
        for actor in ("training", "evaluation")
    }
    found: dict[str, Grant] = {}
    for arn, folders in readers.items():
        for bucket in dict.fromkeys(each.bucket for each in folders):
            here = [each for each in folders if each.bucket == bucket]
            keys = {each.kms_key_arn for each in here if each.kms_key_arn}
            if {here[0].account, *(key.split(":")[4] for key in keys)} == {views[0].account}:
                continue
            empty = Grant(here[0].account, bucket, {"Version": _VERSION, "Statement": []})
            grant = found.setdefault(bucket, empty)
            prefixes = {"StringLike": {"s3:prefix": [each.keys for each in here]}}
            objects = [each.arns[1] for each in here]
            grant.bucket_policy["Statement"] += [
                _statement("List", arn, "s3:ListBucket", here[0].arns[0], prefixes),
                _statement("Read", arn, "s3:GetObject", objects, {}),
            ]
            for key in sorted(keys):
                policy = grant.key_policies.setdefault(key, {"Version": _VERSION, "Statement": []})
                # S3 names the bucket, not the object, to KMS where bucket keys are on
                contexts = {arn for each in here if each.kms_key_arn == key for arn in each.arns}
                conditions = {
                    "StringEquals": {"kms:ViaService": f"s3.{views[0].region}.amazonaws.com"},
                    "StringLike": {"kms:EncryptionContext:aws:s3:arn": sorted(contexts)},
                }
                decrypts = _statement("Decrypt", arn, "kms:Decrypt", "*", conditions)
                policy["Statement"].append(decrypts)
    return list(found.values())


def _statement(
    verb: str, role: str, action: str, resource: str | list[str], conditions: dict[str, Any]
) -> dict[str, Any]:
    account, name = role.split(":")[4], role.rpartition("/")[2]
    words = re.split(r"[^A-Za-z0-9]+", name)
    return {
        "Sid": verb + "".join(word.capitalize() for word in words),
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:aws:iam::{account}:root"},
        "Action": action,
        "Resource": resource,
        "Condition": conditions | {"ArnEquals": {"aws:PrincipalArn": role}},
    }
