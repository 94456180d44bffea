"""Objects that the emulator keeps in files, and their versions."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.control import running

SIZE = 17 * 1024 * 1024
BUCKET = "large-objects"


def test_the_versions_of_a_large_object_are_listed_and_removed(tmp_path: Path) -> None:
    with running(tmp_path) as account:
        s3 = account.client("s3")
        s3.create_bucket(Bucket=BUCKET)
        s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        for content in (b"a", b"b"):
            s3.put_object(Bucket=BUCKET, Key="large", Body=content * SIZE)
        versions = s3.list_object_versions(Bucket=BUCKET)["Versions"]
        assert [each["Size"] for each in versions] == [SIZE, SIZE]
        assert s3.get_object(Bucket=BUCKET, Key="large")["Body"].read() == b"b" * SIZE
        for each in versions:
            s3.delete_object(Bucket=BUCKET, Key="large", VersionId=each["VersionId"])
        s3.delete_bucket(Bucket=BUCKET)


@pytest.mark.parametrize("algorithm", ["SHA256", "CRC32C"])
def test_a_large_object_is_copied_with_a_checksum(tmp_path: Path, algorithm: Any) -> None:
    with running(tmp_path) as account:
        s3 = account.client("s3")
        s3.create_bucket(Bucket=BUCKET)
        for name, size in (("large", SIZE), ("small", 9)):
            s3.put_object(Bucket=BUCKET, Key=name, Body=b"a" * size)
        answers = {}
        for name in ("large", "small"):
            copy = {"Bucket": BUCKET, "Key": f"{name}-copy", "CopySource": f"{BUCKET}/{name}"}
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
    tmp_path: Path, checksum: dict[str, str], code: str
) -> None:
    with running(tmp_path) as account:
        s3 = account.client("s3")
        s3.create_bucket(Bucket=BUCKET)
        s3.put_object(Bucket=BUCKET, Key="source", Body=b"0123456789")
        upload = s3.create_multipart_upload(Bucket=BUCKET, Key="k", ChecksumAlgorithm="SHA256")
        target: dict[str, Any] = {"Bucket": BUCKET, "Key": "k", "UploadId": upload["UploadId"]}
        copy = s3.upload_part_copy(
            **target, PartNumber=1, CopySource=f"{BUCKET}/source", CopySourceRange="bytes=2-4"
        )["CopyPartResult"]
        sha256 = base64.b64encode(hashlib.sha256(b"234").digest()).decode()
        assert copy["ChecksumSHA256"] == sha256
        part = {"PartNumber": 1, "ETag": copy["ETag"]}
        with pytest.raises(ClientError, match=code):
            s3.complete_multipart_upload(**target, MultipartUpload={"Parts": [part | checksum]})
        part["ChecksumSHA256"] = sha256
        s3.complete_multipart_upload(**target, MultipartUpload={"Parts": [part]})
        assert s3.get_object(Bucket=BUCKET, Key="k")["Body"].read() == b"234"
