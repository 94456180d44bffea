"""What links a file system: a prefix in S3, and the role that reads it.

FSx imports names at once and an object's content when it is first read. Here both happen when a job
mounts a directory: what is new, changed or deleted below it is brought. Nothing is exported,
because jobs mount read-only.

The service-linked role is created, used and deleted as FSx does it. Source: FSx for Lustre user
guide, "Using service-linked roles" and "Working with server-side encrypted Amazon S3 buckets".
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from boto3.s3.transfer import TransferConfig

from shoal_local.control.identity.identity import Clients, Identity

_TRANSFER = TransferConfig(use_threads=False)


@dataclass
class LinkedPrefix:
    """A prefix of a bucket and its folder. `staging` is a file outside of every such folder."""

    bucket: str
    prefix: str
    folder: Path
    staging: Path
    loaded: dict[str, str] = field(default_factory=dict)
    """The path of each file that was brought, with its object's ETag."""

    def bring(self, s3: Any, below: str) -> None:
        """Make the folder equal to the prefix, `below` a path that is empty or ends with a slash.

        Raise ClientError or BotoCoreError when the bucket cannot be read.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        objects = self.objects(s3)
        for path in self.loaded.keys() - objects.keys():
            (self.folder / path).unlink(missing_ok=True)
            del self.loaded[path]
        for path, tag in sorted(objects.items()):
            if path.startswith(below) and self.loaded.get(path) != tag:
                self._load(s3, path)
                self.loaded[path] = tag

    def _load(self, s3: Any, path: str) -> None:
        target = self.folder / path
        for folder in (target.parent, self.staging.parent):
            folder.mkdir(parents=True, exist_ok=True)
        s3.download_file(self.bucket, self.prefix + path, str(self.staging), Config=_TRANSFER)
        # atomic: a job that reads meanwhile sees the old content or the new
        self.staging.replace(target)

    def objects(self, s3: Any) -> dict[str, str]:
        """Return the ETags of the objects by their paths below the prefix.

        Left out are objects that can be no file: folders, and keys that lead out of the folder.
        """
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=self.prefix)
        tags = {
            each["Key"][len(self.prefix) :]: each["ETag"]
            for page in pages
            for each in page.get("Contents", [])
        }
        folders = {str(parent) for path in tags for parent in PurePosixPath(path).parents}
        return {path: tag for path, tag in tags.items() if _is_file(path) and path not in folders}


def _is_file(path: str) -> bool:
    leads_out = path.startswith("/") or ".." in path.split("/")
    return bool(path) and not path.endswith("/") and not leads_out


SERVICE = "s3.data-source.lustre.fsx.amazonaws.com"
PATH = f"/aws-service-role/{SERVICE}/"
_POLICY = "S3"
_ACTIONS = (
    "AbortMultipartUpload",
    "DeleteObject",
    "Get*",
    "List*",
    "PutBucketNotification",
    "PutObject",
)


@dataclass
class LinkedRole:
    """The role of one file system. It exists once the file system has an association."""

    identity: Identity
    clients: Clients
    file_system_id: str
    exists: bool = False

    @property
    def name(self) -> str:
        return f"AWSServiceRoleForFSxS3Access_{self.file_system_id}"

    def allow(self, bucket: str) -> None:
        """Let the file system use `bucket`, and create the role where it is missing."""
        iam = self.clients("iam")
        if not self.exists:
            principal = {"Principal": {"Service": SERVICE}}
            trust = _policy({"Effect": "Allow", **principal, "Action": "sts:AssumeRole"})
            iam.create_role(Path=PATH, RoleName=self.name, AssumeRolePolicyDocument=trust)
            self.exists = True
        access = {
            "Effect": "Allow",
            "Action": [f"s3:{action}" for action in _ACTIONS],
            "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"],
        }
        iam.put_role_policy(RoleName=self.name, PolicyName=_POLICY, PolicyDocument=_policy(access))

    def s3(self) -> Any:
        """Return an S3 client that acts as this role."""
        arn = f"arn:aws:iam::{self.identity.account}:role{PATH}{self.name}"
        return self.clients("s3", self.identity.service_credentials(arn, "FSx", SERVICE))

    def delete(self) -> None:
        if self.exists:
            iam = self.clients("iam")
            iam.delete_role_policy(RoleName=self.name, PolicyName=_POLICY)
            iam.delete_role(RoleName=self.name)


def _policy(statement: Mapping[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})
