"""Refuse what S3 refuses of objects before their bytes: another owner of the bucket, and encryption
with keys that cannot be used.

Errors and their order: recorded by LocalStack from S3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote

from moto.s3.models import FakeKey, s3_backends

from shoal_local.control.authorization.account import AccountState, owner_of_bucket
from shoal_local.control.http.protocol import ApiCall
from shoal_local.control.identity.policy_guards import check_usable
from shoal_local.errors import AwsError

Guard = Callable[[ApiCall], None]
PARTITION = "aws"
KMS = "aws:kms"  # and aws:kms:dsse


@dataclass(frozen=True)
class ObjectGuards:
    """The guards of one account's S3."""

    state: AccountState

    @property
    def guards(self) -> Mapping[str, Guard]:
        """Return the guards by operation; `*` is every operation."""
        return {
            "*": _check_owners,
            "PutObject": self._check_new_key,
            "CreateMultipartUpload": self._check_new_key,
            "GetObject": self._check_read,
            "CopyObject": self._check_copy,
            "UploadPartCopy": self._check_source,
        }

    def _check_read(self, call: ApiCall) -> None:
        request = call.parameters
        stored = _object(request["Bucket"], request["Key"], request.get("VersionId"))
        self._check_key_of(stored, request["Bucket"])

    def _check_source(self, call: ApiCall) -> None:
        path, _, query = str(call.parameters["CopySource"]).partition("?")
        bucket, _, key = unquote(path).lstrip("/").partition("/")
        if key:
            stored = _object(bucket, key, parse_qs(query).get("versionId", [None])[0])
            self._check_key_of(stored, bucket)

    def _check_copy(self, call: ApiCall) -> None:
        self._check_source(call)
        self._check_new_key(call)

    def _check_key_of(self, stored: Any, bucket: str) -> None:
        if isinstance(stored, FakeKey) and (stored.encryption or "").startswith(KMS):
            self._check_key(stored.kms_key_id or self.state.key_of_bucket(bucket), bucket)

    def _check_new_key(self, call: ApiCall) -> None:
        """Check the key with which the object is to be encrypted."""
        request = call.parameters
        encryption = request.get("ServerSideEncryption")
        if encryption is None or encryption.startswith(KMS):
            named = request.get("SSEKMSKeyId") if encryption else None
            self._check_key(named or self.state.key_of_bucket(request["Bucket"]), request["Bucket"])

    def _check_key(self, key: str | None, bucket: str) -> None:
        if key:
            owner = owner_of_bucket(bucket) or self.state.account
            check_usable(key, owner, self.state.region)


def _check_owners(call: ApiCall) -> None:
    """Refuse a request for a bucket of another account than it expects, as SageMaker's SDKs do."""
    expected = call.parameters.get("ExpectedBucketOwner")
    if expected and owner_of_bucket(call.parameters.get("Bucket", "")) not in {None, expected}:
        raise AwsError("AccessDenied", "Access Denied", 403)


def _object(bucket: str, key: str, version: str | None) -> Any:
    owner = owner_of_bucket(bucket)
    if owner is None:
        return None
    return s3_backends[owner][PARTITION].get_object(bucket, key, version_id=version)
