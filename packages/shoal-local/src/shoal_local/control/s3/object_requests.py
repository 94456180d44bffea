"""Refuse requests to S3 that moto answers with a 500 or with a success, and AWS does not.

Codes and words: answers of AWS that LocalStack recorded (`tests/aws/services/s3/*.snapshot.json` of
its repository); what is marked below is from S3's user guide only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from moto.s3.models import FakeBucket, FakeDeleteMarker, s3_backends
from moto.utilities.utils import get_partition

from shoal_local.control.http.protocol import ApiCall
from shoal_local.errors import AwsError

MAX_DELETED_KEYS = 1000
_NAME = re.compile(r"(?!xn--|sthree-|amzn-s3-demo-)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")
_RESERVED_ENDINGS = ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")
_VERSION = re.compile(r"null|[\w.]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""An identifier of S3's form, or of moto's."""


def check_source(call: ApiCall) -> None:
    """Refuse a copy whose source is not `bucket/key`."""
    bucket, _, key = unquote(call.parameters["CopySource"]).lstrip("/").partition("/")
    if not (bucket and key.partition("?")[0]):
        raise AwsError("InvalidArgument", "Invalid copy source object key")


def check_tagged_object(call: ApiCall) -> None:
    """Refuse to delete the tags of an object that is not there."""
    bucket = _bucket(call)
    key = bucket.keys.get(call.parameters["Key"]) if bucket is not None else None
    if bucket is not None and (key is None or isinstance(key, FakeDeleteMarker)):
        raise AwsError("NoSuchKey", "The specified key does not exist.", 404)


def check_upload(call: ApiCall) -> None:
    """Refuse an upload that was aborted or completed.

    The upload that made the object may be completed again: a client that lost the answer does so.
    """
    bucket, id_ = _bucket(call), call.parameters["UploadId"]
    if bucket is None or id_ in bucket.multiparts:
        return
    completed = getattr(bucket.keys.get(call.parameters["Key"]), "multipart", None)
    if call.operation == "UploadPart" or getattr(completed, "id", None) != id_:
        raise AwsError(
            "NoSuchUpload",
            "The specified upload does not exist. The upload ID may be invalid, or the upload may"
            " have been aborted or completed.",
            404,
        )


def check_completion(call: ApiCall) -> None:
    """Refuse to complete an upload that is not there, or of no parts."""
    check_upload(call)
    if not (call.parameters.get("MultipartUpload") or {}).get("Parts"):
        raise AwsError("InvalidRequest", "You must specify at least one part")


def check_version(call: ApiCall) -> None:
    """Refuse to read a delete marker by its version, and what is no version's identifier.

    Source of the second: S3 API reference, list of error codes; recorded for PutObjectAcl.
    """
    version, bucket = call.parameters.get("VersionId"), _bucket(call)
    if version is None or bucket is None:
        return
    if not _VERSION.fullmatch(version):
        raise AwsError("InvalidArgument", "Invalid version id specified")
    for key in bucket.keys.getlist(call.parameters["Key"], default=[]):
        if isinstance(key, FakeDeleteMarker) and key.version_id == version:
            raise AwsError(
                "MethodNotAllowed",
                "The specified method is not allowed against this resource.",
                405,
            )


def check_versioning(call: ApiCall) -> None:
    """Refuse a status in another case: XML has no other check of it."""
    configuration = call.parameters["VersioningConfiguration"]
    _require_enum(configuration.get("Status"), "Enabled", "Suspended")
    _require_enum(configuration.get("MFADelete"), "Enabled", "Disabled")


def _require_enum(value: str | None, *allowed: str) -> None:
    if value is not None and value not in allowed:
        raise _malformed()


def check_deletion(call: ApiCall) -> None:
    """Refuse more keys than one request may name (API reference, DeleteObjects)."""
    if not 1 <= len(call.parameters["Delete"]["Objects"]) <= MAX_DELETED_KEYS:
        raise _malformed()


def check_bucket(call: ApiCall) -> None:
    """Refuse names that S3 has not (user guide, general purpose bucket naming rules), and a bucket
    in a region that this endpoint does not play.
    """
    name = call.parameters["Bucket"]
    if (
        not _NAME.fullmatch(name)
        or ".." in name
        or _ADDRESS.fullmatch(name)
        or name.endswith(_RESERVED_ENDINGS)
    ):
        raise AwsError("InvalidBucketName", "The specified bucket is not valid.")
    region = (call.parameters.get("CreateBucketConfiguration") or {}).get("LocationConstraint")
    if region is not None and region != call.region:
        raise AwsError(
            "IllegalLocationConstraintException",
            f"The {region} location constraint is incompatible for the region specific endpoint"
            " this request was sent to.",
        )


def check_lifecycle(call: ApiCall) -> None:
    """Refuse an expiration after no days (S3's words as its users quote them)."""
    for rule in (call.parameters.get("LifecycleConfiguration") or {}).get("Rules", []):
        if (rule.get("Expiration") or {}).get("Days", 1) < 1:
            raise AwsError(
                "InvalidArgument", "'Days' for Expiration action must be a positive integer"
            )


def _malformed() -> AwsError:
    return AwsError(
        "MalformedXML",
        "The XML you provided was not well-formed or did not validate against our published schema",
    )


def _bucket(call: ApiCall) -> FakeBucket | None:
    buckets: Mapping[str, Any] = s3_backends[call.account][get_partition(call.region)].buckets
    return buckets.get(call.parameters["Bucket"])


GUARDS: Mapping[str, Callable[[ApiCall], None]] = {
    "CopyObject": check_source,
    "UploadPartCopy": check_source,
    "DeleteObjectTagging": check_tagged_object,
    "CompleteMultipartUpload": check_completion,
    "UploadPart": check_upload,
    "GetObject": check_version,
    "PutBucketVersioning": check_versioning,
    "DeleteObjects": check_deletion,
    "CreateBucket": check_bucket,
    "PutBucketLifecycleConfiguration": check_lifecycle,
}
