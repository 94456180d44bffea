"""Objects in S3: what is refused before their bytes, checksums, versions in pages, and objects that
the emulator keeps in files.

| answer | source: LocalStack's recordings of AWS |
| --- | --- |
| expected owner: another account | `s3: bucket policy with expected bucket owner` |
| SSE-KMS with a key that is not there | `s3: validate kms key` |
| SSE-KMS with a disabled key, one pending deletion | `s3: validate kms key state` |
| KMS: the same states | `kms: key is disabled`, `kms: key does not exist` |
| checksums | `s3: put object checksum`, `s3: upload part checksum exception` |
"""

import base64
import hashlib
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.s3.exceptions import S3ClientError

from local_kit.control import Account, refused, unique
from shoal_local.control.http.loopback_guard import MAX_IN_MEMORY_BYTES
from shoal_local.control.object_bodies import check_upload

NO_KEY = "134f2428-cec1-4b25-a1ae-9048164dba47"


@pytest.fixture(scope="module")
def bucket(account: Account) -> str:
    name = account.bucket()
    account.client("s3").put_object(Bucket=name, Key="source", Body=b"data")
    return name


def test_s3_refuses_a_bucket_of_another_owner_than_expected(account: Account, bucket: str) -> None:
    s3 = account.client("s3")
    at = {"Bucket": bucket, "Key": "source"}
    s3.get_object(**at, ExpectedBucketOwner="111122223333")
    other = {"ExpectedBucketOwner": "000000000002"}
    assert refused(s3.get_object, **at, **other) == ("AccessDenied", "Access Denied")
    assert refused(s3.head_object, **at, **other)[0] == "403"
    assert refused(s3.put_object, **at, **other, Body=b"x" * 100_000)[0] == "AccessDenied"
    assert refused(s3.list_objects_v2, Bucket=bucket, **other)[0] == "AccessDenied"
    assert refused(s3.delete_bucket, Bucket=bucket, **other)[0] == "AccessDenied"


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("fake-key-id", "Invalid keyId 'fake-key-id'"),
        (NO_KEY, f"Key 'arn:aws:kms:us-east-1:111122223333:key/{NO_KEY}' does not exist"),
        (f"arn:aws:kms:us-west-1:111122223333:key/{NO_KEY}", "Invalid arn us-west-1"),
    ],
)
def test_s3_refuses_to_encrypt_with_a_key_that_is_not_there(
    account: Account, bucket: str, key: str, message: str
) -> None:
    s3, at = account.client("s3"), {"Bucket": bucket, "Key": "encrypted"}
    encryption = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key}
    expected = ("KMS.NotFoundException", message)
    assert refused(s3.put_object, **at, **encryption, Body=b"data") == expected
    assert refused(s3.create_multipart_upload, **at, **encryption) == expected
    copy = {**at, **encryption, "CopySource": f"{bucket}/source"}
    assert refused(s3.copy_object, **copy) == expected


def test_s3_reads_and_writes_nothing_with_a_disabled_key_nor_one_to_be_deleted(
    account: Account,
) -> None:
    s3, kms, bucket = account.client("s3"), account.client("kms"), account.bucket()
    key = kms.create_key()["KeyMetadata"]["Arn"]
    default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}
    rules = {"Rules": [{"ApplyServerSideEncryptionByDefault": default}]}
    s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration=rules)
    at = {"Bucket": bucket, "Key": "object"}
    s3.put_object(**at, Body=b"data")
    kms.disable_key(KeyId=key.rpartition("/")[2])
    disabled = ("KMS.DisabledException", f"{key} is disabled.")
    assert refused(s3.get_object, **at) == disabled
    assert refused(s3.put_object, **at, Body=b"other") == disabled
    s3.put_object(Bucket=bucket, Key="plain", Body=b"data", ServerSideEncryption="AES256")
    s3.get_object(Bucket=bucket, Key="plain")
    copy = {"Bucket": bucket, "Key": "copy", "CopySource": f"{bucket}/object"}
    assert refused(s3.copy_object, **copy, ServerSideEncryption="AES256") == disabled
    kms.schedule_key_deletion(KeyId=key.rpartition("/")[2], PendingWindowInDays=7)
    pending = ("KMS.KMSInvalidStateException", f"{key} is pending deletion.")
    assert refused(s3.get_object, **at) == pending


BODY = b"test-data"
MD5 = base64.b64encode(hashlib.md5(BODY, usedforsecurity=False).digest()).decode()
CRC32 = base64.b64encode(zlib.crc32(BODY).to_bytes(4, "big")).decode()


@pytest.mark.parametrize(("algorithm", "size"), [("CRC32", 4), ("SHA256", 32)])
def test_s3_refuses_objects_and_parts_with_a_wrong_checksum(
    account: Account, bucket: str, algorithm: str, size: int
) -> None:
    s3, at = account.client("s3"), {"Bucket": bucket, "Key": unique("object")}
    wrong = {f"Checksum{algorithm}": base64.b64encode(bytes(size)).decode()}
    message = f"The {algorithm} you specified did not match the calculated checksum."
    assert refused(s3.put_object, **at, Body=BODY, **wrong) == ("BadDigest", message)
    assert refused(s3.head_object, **at)[0] == "404"
    upload = {**at, "UploadId": s3.create_multipart_upload(**at)["UploadId"], "PartNumber": 1}
    assert refused(s3.upload_part, **upload, Body=BODY, **wrong) == ("BadDigest", message)


def test_s3_takes_right_checksums(account: Account, bucket: str) -> None:
    s3, at = account.client("s3"), {"Bucket": bucket, "Key": unique("object")}
    s3.put_object(**at, Body=BODY, ChecksumCRC32=CRC32)
    assert s3.get_object(**at)["Body"].read() == BODY
    large = b"x" * (MAX_IN_MEMORY_BYTES + 1)
    s3.put_object(**at, Body=large, ChecksumAlgorithm="SHA256")
    expected = base64.b64encode(hashlib.sha256(large).digest()).decode()
    assert s3.head_object(**at, ChecksumMode="ENABLED")["ChecksumSHA256"] == expected


def test_a_large_body_is_compared_with_the_hash_that_signs_it() -> None:
    large = b"x" * (MAX_IN_MEMORY_BYTES + 1)
    check_upload({"x-amz-content-sha256": hashlib.sha256(large).hexdigest()}, large)
    with pytest.raises(S3ClientError) as refusal:
        check_upload({"x-amz-content-sha256": hashlib.sha256(b"other").hexdigest()}, large)
    assert refusal.value.code == "XAmzContentSHA256Mismatch"


PUT, DELETED, KEYS = 1050, 60, 350


def entries(page: dict[str, Any]) -> list[dict[str, str]]:
    found = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
    return [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in found]


@pytest.fixture(scope="module")
def versioned(account: Account) -> str:
    """A versioned bucket with 1,050 versions and 60 delete markers of 350 keys in 7 folders."""
    s3, name = account.client("s3"), account.bucket()
    enabled = {"Status": "Enabled"}
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration=enabled)

    def fill(key: int) -> None:
        path = f"{key % 7}/{key:04d}"
        for _ in range(PUT // KEYS):
            s3.put_object(Bucket=name, Key=path, Body=b"")
        if key < DELETED:
            s3.delete_object(Bucket=name, Key=path)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(fill, range(KEYS)))
    return name


def pages(s3: Any, versioned: str, **request: Any) -> Iterator[dict[str, Any]]:
    paginator = s3.get_paginator("list_object_versions")
    yield from paginator.paginate(Bucket=versioned, **request)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({}, PUT + DELETED),
        ({"PaginationConfig": {"PageSize": 499}}, PUT + DELETED),
        ({"Prefix": "3/"}, 159),
        ({"Prefix": "3/", "PaginationConfig": {"PageSize": 7}}, 159),
        ({"Prefix": "none/"}, 0),
    ],
)
def test_pages_have_each_version_once(
    account: Account, versioned: str, request_: dict[str, Any], expected: int
) -> None:
    found = [
        each
        for page in pages(account.client("s3"), versioned, **request_)
        for each in entries(page)
    ]
    assert len(found) == len({each["VersionId"] for each in found}) == expected


def test_the_newest_version_is_the_latest_and_comes_first(account: Account, versioned: str) -> None:
    s3 = account.client("s3")
    for body in (b"old", b"new"):
        s3.put_object(Bucket=versioned, Key="8/latest", Body=body)
    versions = s3.list_object_versions(Bucket=versioned, Prefix="8/")["Versions"]
    assert [each["IsLatest"] for each in versions] == [True, False]
    assert versions[0]["VersionId"] == s3.head_object(Bucket=versioned, Key="8/latest")["VersionId"]
    assert entries(s3.list_object_versions(Bucket=versioned, KeyMarker="8/latest")) == []
    behind = {"KeyMarker": "8/latest", "VersionIdMarker": versions[0]["VersionId"]}
    assert entries(s3.list_object_versions(Bucket=versioned, **behind)) == entries(
        {"Versions": versions[1:]}
    )
    for version in versions:
        s3.delete_object(Bucket=versioned, Key="8/latest", VersionId=version["VersionId"])


def test_a_bucket_is_emptied_page_by_page(account: Account, versioned: str) -> None:
    s3, deleted = account.client("s3"), 0
    for page in pages(s3, versioned):
        s3.delete_objects(Bucket=versioned, Delete={"Objects": entries(page), "Quiet": True})
        deleted += len(entries(page))
    assert deleted == PUT + DELETED
    s3.delete_bucket(Bucket=versioned)


@pytest.mark.parametrize("key", ["a\x1bb", "a\rb", "a\tb", "a+b c", "a\uffffb", "\xe9/%41&<"])
def test_versions_are_listed_whatever_is_in_their_keys(account: Account, key: str) -> None:
    """XML 1.0 has no place for some, and a decoded `+` is a space."""
    s3, names = account.client("s3"), [key, f"{key}2"]
    bucket = account.bucket()
    for name in names:
        s3.put_object(Bucket=bucket, Key=name, Body=b"")
    found = list(pages(s3, bucket, Prefix=key, PaginationConfig={"PageSize": 1}))
    assert [each["Key"] for page in found for each in entries(page)] == names


def test_a_key_with_a_line_break_is_refused_by_name(account: Account, bucket: str) -> None:
    s3 = account.client("s3")
    code, message = refused(s3.put_object, Bucket=bucket, Key="a\nb", Body=b"")
    assert (code, "line break" in message) == ("UnknownOperationException", True)
    assert refused(s3.head_object, Bucket=bucket, Key="a\nb")[0] == "400"


SIZE = 17 * 1024 * 1024


def test_the_versions_of_a_large_object_are_listed_and_removed(account: Account) -> None:
    s3, bucket = account.client("s3"), account.bucket()
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for content in (b"a", b"b"):
        s3.put_object(Bucket=bucket, Key="large", Body=content * SIZE)
    versions = s3.list_object_versions(Bucket=bucket)["Versions"]
    assert [each["Size"] for each in versions] == [SIZE, SIZE]
    assert s3.get_object(Bucket=bucket, Key="large")["Body"].read() == b"b" * SIZE
    for each in versions:
        s3.delete_object(Bucket=bucket, Key="large", VersionId=each["VersionId"])
    s3.delete_bucket(Bucket=bucket)


@pytest.mark.parametrize("algorithm", ["SHA256", "CRC32C"])
def test_a_large_object_is_copied_with_a_checksum(account: Account, algorithm: Any) -> None:
    s3, bucket = account.client("s3"), account.bucket()
    for name, size in (("large", SIZE), ("small", 9)):
        s3.put_object(Bucket=bucket, Key=name, Body=b"a" * size)
    answers = {}
    for name in ("large", "small"):
        copy = {"Bucket": bucket, "Key": f"{name}-copy", "CopySource": f"{bucket}/{name}"}
        answer = s3.copy_object(**copy, ChecksumAlgorithm=algorithm)
        answers[name] = answer["CopyObjectResult"]
    if algorithm == "SHA256":
        digest = base64.b64encode(hashlib.sha256(b"a" * SIZE).digest()).decode()
        assert answers["large"]["ChecksumSHA256"] == digest
    assert {*answers["large"]} == {*answers["small"]}


@pytest.mark.parametrize(
    ("checksum", "code"),
    [({}, "InvalidRequest"), ({"ChecksumSHA256": "A" * 43 + "="}, "InvalidPart")],
)
def test_copied_parts_are_hashed_and_an_upload_ends_only_with_their_checksums(
    account: Account, checksum: dict[str, str], code: str
) -> None:
    s3, bucket = account.client("s3"), account.bucket()
    s3.put_object(Bucket=bucket, Key="source", Body=b"0123456789")
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k", ChecksumAlgorithm="SHA256")
    target: dict[str, Any] = {"Bucket": bucket, "Key": "k", "UploadId": upload["UploadId"]}
    copy = s3.upload_part_copy(
        **target, PartNumber=1, CopySource=f"{bucket}/source", CopySourceRange="bytes=2-4"
    )["CopyPartResult"]
    sha256 = base64.b64encode(hashlib.sha256(b"234").digest()).decode()
    assert copy["ChecksumSHA256"] == sha256
    part = {"PartNumber": 1, "ETag": copy["ETag"]}
    with pytest.raises(ClientError, match=code):
        s3.complete_multipart_upload(**target, MultipartUpload={"Parts": [part | checksum]})
    part["ChecksumSHA256"] = sha256
    s3.complete_multipart_upload(**target, MultipartUpload={"Parts": [part]})
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"234"
