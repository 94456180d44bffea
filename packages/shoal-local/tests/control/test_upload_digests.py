"""Uploads that are not what their headers say.

Source of the answers: LocalStack's recordings of AWS, `s3: put object checksum`, `s3: upload part
checksum exception`, `s3: checksum no algorithm` and `s3: invalid content md5`.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Mapping
from typing import Any

import pytest
from moto.s3.exceptions import S3ClientError

from local_kit.control import Account, refused, unique
from shoal_local.control.http.loopback_guard import MAX_IN_MEMORY_BYTES
from shoal_local.control.s3.upload_digests import check_digests
from tests.control.test_signatures import send

BODY = b"test-data"
MD5 = base64.b64encode(hashlib.md5(BODY, usedforsecurity=False).digest()).decode()
CRC32 = base64.b64encode(zlib.crc32(BODY).to_bytes(4, "big")).decode()
OTHER_MD5 = base64.b64encode(bytes(16)).decode()


@pytest.fixture(scope="module")
def bucket(account: Account) -> str:
    name = unique("uploads")
    account.client("s3").create_bucket(Bucket=name)
    return name


def wrong(algorithm: str) -> tuple[dict[str, str], tuple[str, str]]:
    size = {"CRC32": 4, "SHA1": 20, "SHA256": 32}[algorithm]
    value = base64.b64encode(bytes(size)).decode()
    message = f"The {algorithm} you specified did not match the calculated checksum."
    return {f"Checksum{algorithm}": value}, ("BadDigest", message)


@pytest.mark.parametrize(
    ("digests", "answer"),
    [
        wrong("CRC32"),
        wrong("SHA1"),
        wrong("SHA256"),
        (
            {"ChecksumCRC32C": "test"},
            ("InvalidRequest", "Value for x-amz-checksum-crc32c header is invalid."),
        ),
        (
            {"ContentMD5": OTHER_MD5},
            ("BadDigest", "The Content-MD5 you specified did not match what we received."),
        ),
        (
            {"ContentMD5": "__invalid__"},
            ("InvalidDigest", "The Content-MD5 you specified was invalid."),
        ),
        ({"ContentMD5": "MTIz"}, ("InvalidDigest", "The Content-MD5 you specified was invalid.")),
    ],
)
def test_s3_refuses_objects_and_parts_with_a_wrong_digest(
    account: Account, bucket: str, digests: Mapping[str, Any], answer: tuple[str, str]
) -> None:
    s3, at = account.client("s3"), {"Bucket": bucket, "Key": unique("object")}
    assert refused(s3.put_object, **at, Body=BODY, **digests) == answer
    assert refused(s3.head_object, **at)[0] == "404"
    upload = {**at, "UploadId": s3.create_multipart_upload(**at)["UploadId"]}
    assert refused(s3.upload_part, **upload, PartNumber=1, Body=BODY, **digests) == answer


def test_s3_takes_right_digests(account: Account, bucket: str) -> None:
    s3, at = account.client("s3"), {"Bucket": bucket, "Key": unique("object")}
    s3.put_object(**at, Body=BODY, ContentMD5=MD5, ChecksumCRC32=CRC32)
    large = b"x" * (MAX_IN_MEMORY_BYTES + 1)
    s3.put_object(**at, Body=large, ChecksumAlgorithm="SHA256")


@pytest.mark.parametrize(("content", "status"), [(BODY, 200), (b"corrupted", 400)])
def test_s3_checks_a_checksum_that_trails_the_chunks(
    account: Account, bucket: str, content: bytes, status: int
) -> None:
    headers = {
        "Content-Encoding": "aws-chunked",
        "x-amz-decoded-content-length": str(len(content)),
        "x-amz-trailer": "x-amz-checksum-crc32",
    }
    path, payload = f"/{bucket}/{unique('object')}", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
    signed = account.signed("PUT", path, "s3", headers=headers, payload=payload)
    chunks = b"%x\r\n%s\r\n0\r\n" % (len(content), content)
    trailer = f"x-amz-checksum-crc32:{CRC32}\r\n\r\n".encode()
    assert send(account, "PUT", path, signed, chunks + trailer)[0] == status


def test_a_large_body_is_compared_with_the_hash_that_signs_it() -> None:
    large = b"x" * (MAX_IN_MEMORY_BYTES + 1)
    check_digests({"x-amz-content-sha256": hashlib.sha256(large).hexdigest()}, large)
    with pytest.raises(S3ClientError) as refusal:
        check_digests({"x-amz-content-sha256": hashlib.sha256(b"other").hexdigest()}, large)
    assert refusal.value.code == "XAmzContentSHA256Mismatch"


def test_a_request_has_one_checksum() -> None:
    headers = {"x-amz-checksum-crc32": CRC32, "x-amz-checksum-sha1": "x"}
    with pytest.raises(S3ClientError) as refusal:
        check_digests(headers, BODY)
    assert refusal.value.code == "InvalidRequest"
