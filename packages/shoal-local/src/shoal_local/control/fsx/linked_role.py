"""The service-linked role with which a file system reads its data repository.

It is created, used and deleted as FSx does it. Source: FSx for Lustre user guide, "Using
service-linked roles" and "Working with server-side encrypted Amazon S3 buckets".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal_local.control.identity.clients import Clients
from shoal_local.control.identity.identity import Identity

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
