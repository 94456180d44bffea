"""Check what a client says about the bytes of an upload to S3: Content-MD5, checksums, SHA-256.

moto takes any. CRC32C and CRC64NVME, which Python lacks, are checked for their form only. Errors:
recorded by LocalStack from S3.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any

from moto.core.common_types import TYPE_RESPONSE
from moto.s3.exceptions import S3ClientError
from moto.s3.responses import S3Response

from shoal_local.control.http.loopback_guard import MAX_IN_MEMORY_BYTES
from shoal_local.control.s3.object_bodies import Body, blocks_of, checksum_of, sha256

SHA256 = re.compile(r"^[0-9a-f]{64}$")
LENGTHS: Mapping[str, int] = {"CRC32": 4, "CRC32C": 4, "CRC64NVME": 8, "SHA1": 20, "SHA256": 32}
COMPUTED = frozenset({"CRC32", "SHA1", "SHA256"})


def checked(answer: Callable[[S3Response], TYPE_RESPONSE]) -> Callable[[S3Response], TYPE_RESPONSE]:
    """Return a method of moto that refuses an upload that is not what its headers say."""

    def checked_answer(response: S3Response) -> TYPE_RESPONSE:
        check_digests(response.headers, response.raw_body)
        return answer(response)

    return checked_answer


def check_digests(headers: Mapping[str, str], body: bytes | Body) -> None:
    """Raise S3ClientError for a digest that is malformed or not the body's."""
    _check_md5(headers.get("Content-MD5"), body)
    values = {name: headers.get(f"x-amz-checksum-{name.lower()}") for name in LENGTHS}
    checksums = {name: value for name, value in values.items() if value is not None}
    if len(checksums) > 1:
        raise S3ClientError(
            "InvalidRequest",
            "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.",
        )
    for name, value in checksums.items():
        _check_checksum(name, value, body)
    # `signatures` compares the hash of a small body.
    named = headers.get("x-amz-content-sha256", "")
    is_signed = len(body) > MAX_IN_MEMORY_BYTES and SHA256.match(named)
    if is_signed and sha256(blocks_of(body)).hex() != named:
        message = "The provided 'x-amz-content-sha256' header does not match what was computed."
        raise S3ClientError("XAmzContentSHA256Mismatch", message)


def _check_md5(value: str | None, body: bytes | Body) -> None:
    if value is None:
        return
    digest = _decoded(value)
    if len(digest) != hashlib.md5(usedforsecurity=False).digest_size:
        raise S3ClientError("InvalidDigest", "The Content-MD5 you specified was invalid.")
    hasher = hashlib.md5(usedforsecurity=False)
    for block in blocks_of(body):
        hasher.update(block)
    if hasher.digest() != digest:
        message = "The Content-MD5 you specified did not match what we received."
        raise S3ClientError("BadDigest", message)


def _check_checksum(name: str, value: str, body: bytes | Body) -> None:
    if len(_decoded(value)) != LENGTHS[name]:
        header = f"x-amz-checksum-{name.lower()}"
        raise S3ClientError("InvalidRequest", f"Value for {header} header is invalid.")
    if name in COMPUTED and checksum_of(body, name).decode() != value:
        message = f"The {name} you specified did not match the calculated checksum."
        raise S3ClientError("BadDigest", message)


def _decoded(value: str) -> bytes:
    """Return the bytes of a digest in base64, none where it is no base64."""
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return b""


PATCHES: tuple[tuple[object, str, Any], ...] = (
    (S3Response, "put_object", checked(S3Response.put_object)),
    (S3Response, "upload_part", checked(S3Response.upload_part)),
)
