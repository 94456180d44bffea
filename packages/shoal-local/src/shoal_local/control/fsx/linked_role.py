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
_SESSION = "FSx"
_ACTIONS = (
    "AbortMultipartUpload",
    "DeleteObject",
    "Get*",
    "List*",
    "PutBucketNotification",
    "PutObject",
)


@dataclass(frozen=True)
class LinkedRole:
    """The role of one file system."""

    identity: Identity
    clients: Clients
    file_system_id: str

    @property
    def name(self) -> str:
        return f"AWSServiceRoleForFSxS3Access_{self.file_system_id}"

    @property
    def arn(self) -> str:
        return f"arn:aws:iam::{self.identity.account}:role{PATH}{self.name}"

    def allow(self, bucket: str) -> None:
        """Let the file system use `bucket`, and create the role where it is missing."""
        iam = self.clients("iam")
        if not self._exists():
            trust = {
                "Effect": "Allow",
                "Principal": {"Service": SERVICE},
                "Action": "sts:AssumeRole",
            }
            iam.create_role(Path=PATH, RoleName=self.name, AssumeRolePolicyDocument=_policy(trust))
        resources = [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]
        access = {
            "Effect": "Allow",
            "Action": [f"s3:{action}" for action in _ACTIONS],
            "Resource": resources,
        }
        iam.put_role_policy(RoleName=self.name, PolicyName=bucket, PolicyDocument=_policy(access))

    def s3(self) -> Any:
        """Return an S3 client that acts as this role."""
        return self.clients("s3", self.identity.service_credentials(self.arn, _SESSION, SERVICE))

    def delete(self) -> None:
        if not self._exists():
            return
        iam = self.clients("iam")
        for policy in iam.list_role_policies(RoleName=self.name)["PolicyNames"]:
            iam.delete_role_policy(RoleName=self.name, PolicyName=policy)
        iam.delete_role(RoleName=self.name)

    def _exists(self) -> bool:
        return any(
            role["RoleName"] == self.name
            for role in self.clients("iam").list_roles(PathPrefix=PATH)["Roles"]
        )


def _policy(statement: Mapping[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})
