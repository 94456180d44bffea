"""What S3 does with objects and moto does not.

- Refuse objects before their bytes: another owner of the bucket, and encryption with keys that
  cannot be used. Errors and their order: recorded by LocalStack from S3.
- ListObjectVersions in pages that go on where a version was deleted meanwhile. moto looks for the
  version that a page's marker names, and finds nothing behind one that is gone. It also copies all
  versions of the bucket for each page, and never encodes names. A delimiter is left to moto.
- The SHA-256 of an upload's parts. Sources: S3 API reference, CopyPartResult and
  CompleteMultipartUpload; the refusal as callers of S3 reported it (aws/aws-sdk-php, issue 2648).
  Read, not run on AWS.
- Events to EventBridge for buckets that ask for them. moto would deliver them itself, past the
  policies of its targets. Source of the fields: S3 user guide, "EventBridge event message
  structure".
"""

import base64
import itertools
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import quote

import xmltodict  # type: ignore[import-untyped]
from moto.core.common_types import TYPE_RESPONSE
from moto.core.utils import unix_time_millis
from moto.s3 import notifications
from moto.s3.exceptions import InvalidPart, S3ClientError
from moto.s3.models import FakeDeleteMarker, FakeKey, FakeMultipart, S3Backend, s3_backends
from moto.s3.responses import S3Response

from shoal_local.control.authorization.account import AccountState, copied_object, owner_of_bucket
from shoal_local.control.http.protocol import ApiCall, Guard
from shoal_local.control.identity.identity import PARTITION
from shoal_local.control.identity.policy_guards import check_usable
from shoal_local.control.object_bodies import blocks_of, sha256, value_of
from shoal_local.errors import AwsError

KMS = "aws:kms"  # and aws:kms:dsse


@dataclass(frozen=True)
class ObjectGuards:
    """The guards of one account's S3."""

    state: AccountState

    @property
    def guards(self) -> Mapping[str, Guard]:
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
        self._check_stored(request["Bucket"], request["Key"], request.get("VersionId"))

    def _check_source(self, call: ApiCall) -> None:
        self._check_stored(*copied_object(call))

    def _check_copy(self, call: ApiCall) -> None:
        self._check_source(call)
        self._check_new_key(call)

    def _check_stored(self, bucket: str, key: str, version: str | None) -> None:
        """Check the key with which a stored object is encrypted."""
        owner = owner_of_bucket(bucket)
        store = s3_backends[owner][PARTITION] if owner else None
        stored = store.get_object(bucket, key, version_id=version) if store else None
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


Page = tuple[list[Any], list[str], list[Any], str | None, str | None]
# S3 API reference, ListObjectVersions, EncodingType: some names have no place in XML
_ENCODED = ("Delimiter", "Key", "KeyMarker", "NextKeyMarker", "Prefix")
_serialized_by_moto = S3Response.serialized
_versions_by_moto = S3Backend.list_object_versions


def list_object_versions(
    backend: S3Backend,
    bucket_name: str,
    delimiter: str | None = None,
    key_marker: str | None = None,
    max_keys: int = 1000,
    prefix: str = "",
    version_id_marker: str | None = None,
) -> Page:
    """Return versions, common prefixes, delete markers, and the markers of the next page."""
    if delimiter:
        arguments = (delimiter, key_marker, max_keys, prefix, version_id_marker)
        return _versions_by_moto(backend, bucket_name, *arguments)
    keys = backend.get_bucket(bucket_name).keys
    entries = _entries(keys, prefix, key_marker or "", version_id_marker or "")
    page = list(islice(entries, max_keys + 1))
    is_truncated = len(page) > max_keys > 0
    page = page[:max_keys]
    last_name, last = page[-1] if is_truncated else (None, None)
    versions = [version for _, version in page]
    return (
        [each for each in versions if not isinstance(each, FakeDeleteMarker)],
        [],
        [each for each in versions if isinstance(each, FakeDeleteMarker)],
        last_name,
        None if last is None else _id_of(last),
    )


def _entries(
    keys: Any, prefix: str, key_marker: str, version_marker: str
) -> Iterator[tuple[str, Any]]:
    """Yield, behind the markers, names with their versions, the newest first."""
    for name in sorted(name for name in keys if name.startswith(prefix) and name >= key_marker):
        # reversed: of two versions within a millisecond the later one comes first
        versions = list(reversed(keys.getlist(name, [])))
        versions.sort(key=lambda each: -float(unix_time_millis(each.last_modified)))
        for number, version in enumerate(versions):
            version.is_latest = number == 0
        if name == key_marker:
            versions = _behind(versions, version_marker)
        yield from ((name, version) for version in versions)


def _behind(versions: list[Any], marker: str) -> list[Any]:
    """Return the versions behind a marker: none of a key without one, all where it is gone."""
    ids = [_id_of(each) for each in versions]
    return versions[ids.index(marker) + 1 :] if marker in ids else versions if marker else []


def _id_of(version: Any) -> str:
    return version.version_id or "null"


def serialized(response: S3Response, answer: Any) -> Any:
    """Answer as moto does, with the names in a page of versions encoded where that is asked for."""
    is_page = response.data.get("Action") == "ListObjectVersions"
    if is_page and response.querystring.get("encoding-type") == ["url"]:
        page = answer.result
        page["EncodingType"] = "url"
        prefixes = page.get("CommonPrefixes", [])
        for each in (page, *page["Versions"], *page["DeleteMarkers"], *prefixes):
            each |= {name: quote(each[name]) for name in _ENCODED if each.get(name)}
    return _serialized_by_moto(response, answer)


_NAME = "ChecksumSHA256"
_END = "</CopyPartResult>"
_copy_part_by_moto = S3Response.upload_part_copy
_parts_by_moto = S3Response._complete_multipart_body
_head_by_moto = S3Response.head_object


def copy_part(response: S3Response) -> TYPE_RESPONSE:
    """Copy a part, and answer with its checksum."""
    status, headers, body = _copy_part_by_moto(response)
    upload = _upload(response)
    if status == 200 and upload is not None:
        checksum = _checksum(upload, int(response._get_param("partNumber")))
        text = body.decode() if isinstance(body, bytes) else body
        body = text.replace(_END, f"<{_NAME}>{checksum}</{_NAME}>{_END}")
        headers["content-length"] = str(len(body))
    return status, headers, body


def named_parts(response: S3Response, body: bytes) -> Iterator[tuple[int, str]]:
    """Return a completion's parts; raise S3ClientError unless each has its checksum."""
    if (upload := _upload(response)) is not None:
        named = xmltodict.parse(body, force_list=("Part",))["CompleteMultipartUpload"]
        for part in named.get("Part", []):
            _require_checksum(upload, int(part["PartNumber"]), part.get(_NAME))
    return _parts_by_moto(response, body)


def head_object(
    response: S3Response, bucket: str, query: dict[str, Any], name: str, headers: dict[str, Any]
) -> TYPE_RESPONSE:
    """Answer as moto does; a checksum of parts says of how many, as in moto's GetObject."""
    status, answer, body = _head_by_moto(response, bucket, query, name, headers)
    version = query.get("versionId", [None])[0]
    key = response.backend.get_object(bucket, name, version_id=version) if status == 200 else None
    if key is not None and key.checksum_type == "COMPOSITE":
        header = f"x-amz-checksum-{str(key.checksum_algorithm).lower()}"
        if answer.get(header) == key.checksum_value:
            answer[header] = f"{key.checksum_value}-{key.checksum_parts}"
    return status, answer, body


def _require_checksum(upload: FakeMultipart, number: int, checksum: str | None) -> None:
    if not checksum:
        raise S3ClientError(
            "InvalidRequest",
            "The upload was created using a sha256 checksum. The complete request must include the"
            f" checksum for each part. It was missing for part {number} in the request.",
        )
    if number not in upload.parts or checksum != _checksum(upload, number):
        raise InvalidPart


def _upload(response: S3Response) -> FakeMultipart | None:
    """Return the request's upload if its parts have a SHA-256 each."""
    uploads = response.backend.get_bucket(response.bucket_name).multiparts
    upload: Any = uploads.get(response._get_param("uploadId"))
    hashed = upload and upload.metadata.get("x-amz-checksum-algorithm") == "SHA256"
    return upload if hashed else None


def _checksum(upload: FakeMultipart, number: int) -> str:
    return base64.b64encode(sha256(blocks_of(value_of(upload.parts[number])))).decode()


PATCHES: tuple[tuple[object, str, Any], ...] = (
    (S3Backend, "list_object_versions", list_object_versions),
    (S3Response, "serialized", serialized),
    (S3Response, "upload_part_copy", copy_part),
    (S3Response, "_complete_multipart_body", named_parts),
    (S3Response, "head_object", head_object),
)


Emit = Callable[[str, str, Mapping[str, Any]], object]
"""Takes an account, the bucket's region, and an event."""

_DETAIL_TYPES = {"ObjectCreated": "Object Created", "ObjectRemoved": "Object Deleted"}
_REASONS = {
    "ObjectCreated:Put": "PutObject",
    "ObjectCreated:Post": "POST Object",
    "ObjectCreated:Copy": "CopyObject",
    "ObjectCreated:CompleteMultipartUpload": "CompleteMultipartUpload",
    "ObjectRemoved:Delete": "DeleteObject",
}
_count = itertools.count()


def send_object_events(emit: Emit) -> None:
    """Make moto's S3 pass every event for EventBridge to `emit`."""

    def send(account_id: str, bucket: Any, event_name: str, key: Any) -> None:
        if entry := entry_of(
            account_id, bucket.name, str(getattr(event_name, "value", event_name)), key
        ):
            emit(account_id, bucket.region_name, entry)

    notifications._send_event_bridge_message = send


def entry_of(account: str, bucket: str, event_name: str, key: Any) -> dict[str, Any] | None:
    """Return the event for `s3:ObjectCreated:Put` and the like; None for kinds not sent."""
    kind, _, how = event_name.removeprefix("s3:").partition(":")
    if kind not in _DETAIL_TYPES:
        return None
    about = {
        "key": key.name,
        "size": key.size,
        "etag": key.etag.strip('"'),
        "sequencer": f"{time.time_ns():016X}{next(_count):04X}",
    }
    version = {"version-id": key.version_id} if key.version_id and key.version_id != "null" else {}
    detail = {
        "version": "0",
        "bucket": {"name": bucket},
        "object": about | version,
        "request-id": uuid.uuid4().hex[:16].upper(),
        "requester": account,
        "source-ip-address": "127.0.0.1",
        "reason": _REASONS.get(f"{kind}:{how}", how),
    }
    return {
        "source": "aws.s3",
        "detail-type": _DETAIL_TYPES[kind],
        "detail": detail,
        "resources": [f"arn:aws:s3:::{bucket}"],
    }
