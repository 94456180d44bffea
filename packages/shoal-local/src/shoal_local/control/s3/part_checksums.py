"""The SHA-256 of an upload's parts, which S3 answers with and asks for, and which moto leaves out.

Sources: S3 API reference, CopyPartResult and CompleteMultipartUpload; the refusal as callers of S3
reported it (aws/aws-sdk-php, issue 2648). Read, not run on AWS.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import xmltodict  # type: ignore[import-untyped]
from moto.core.common_types import TYPE_RESPONSE
from moto.s3.exceptions import InvalidPart, S3ClientError
from moto.s3.models import FakeMultipart
from moto.s3.responses import S3Response

from shoal_local.control.s3.object_bodies import blocks_of, sha256, value_of

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
    (S3Response, "upload_part_copy", copy_part),
    (S3Response, "_complete_multipart_body", named_parts),
    (S3Response, "head_object", head_object),
)
