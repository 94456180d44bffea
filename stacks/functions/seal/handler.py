"""Seals an evaluated archive: copies it to where no job can write, and proves the copy.

The Lambda step sends `execution_id`, `model_data_url` (where the training job left the archive),
and as the evaluation measured them `archive_sha256`, `archive_composite_sha256` (only needed above
5 GB) and `content_sha256`. It gets `status`, `model_data_url` (of the sealed archive),
`archive_sha256` and `content_sha256`. A problem raises SealError, which fails the step: then
nothing is registered.

S3 copies and hashes, so nothing passes through here. Sources: S3 API reference, CopyObject ("you
can optionally specify a different checksum algorithm to use", the answer has ChecksumSHA256, and
"up to 5 GB in size in a single atomic action"); CopyPartResult (ChecksumSHA256 is there "if the
multipart upload request was created with the SHA256 checksum algorithm"); S3 user guide, "Checking
object integrity" (what is stored in one piece has a checksum of the whole object, what was uploaded
in parts the composite of the parts' checksums). Run against shoal-local, whose S3 computes both
likewise; only read for AWS.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.exceptions import ClientError

MAX_BYTES = 5 * 1024**3
"""What S3 copies in one piece."""
PART_BYTES = 512 * 1024**2
"""As `training_code/*/evaluate.py` measures parts."""
PARTS_AT_ONCE = 8
SEALED = "models"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COMPOSITE = re.compile(r"[A-Za-z0-9+/]{43}=-[1-9][0-9]{0,4}")
_UNSEEN = ("403", "404")
"""Codes for what does not exist: the first without the right to list the whole bucket (S3 API
reference, HeadObject).
"""

log = logging.getLogger()
log.setLevel(logging.INFO)


class SealError(Exception):
    """The archive is not the one that was evaluated, or cannot be sealed."""


def handler(event: dict[str, Any], context: Any) -> dict[str, str]:
    """Seal one archive; a repeated call finds it sealed, and copies nothing."""
    digests = {key: _digest(event, key, _SHA256) for key in ("archive_sha256", "content_sha256")}
    location, s3 = urlsplit(event["model_data_url"]), boto3.client("s3")
    bucket, key = location.netloc, location.path.lstrip("/")
    archive_sha256, composite = digests["archive_sha256"], event.get("archive_composite_sha256")
    sealed = f"{SEALED}/{archive_sha256}/model.tar.gz"
    if _checksum(s3, bucket, sealed) not in {archive_sha256, composite or archive_sha256}:
        # Under a name of its own first: the final name never has other bytes, not for a moment.
        candidate = f"{SEALED}/candidates/{event['execution_id']}/model.tar.gz"
        head = s3.head_object(Bucket=bucket, Key=key)
        large = head["ContentLength"] > MAX_BYTES
        expected = (
            _digest(event, "archive_composite_sha256", _COMPOSITE) if large else archive_sha256
        )
        version = _copy(s3, bucket, (key, head["VersionId"]), candidate, expected)
        _copy(s3, bucket, (candidate, version), sealed, expected)
    log.info("sealed %s as %s", event["model_data_url"], sealed)
    return {"status": "Sealed", "model_data_url": f"s3://{bucket}/{sealed}", **digests}


def _digest(event: dict[str, Any], key: str, form: re.Pattern[str]) -> str:
    """Return a digest from the evaluation. Raises SealError without one."""
    value = event.get(key)
    if not isinstance(value, str) or not form.fullmatch(value):
        raise SealError(f"{key} is {value!r}: what does evaluation.json say at model.{key}?")
    return value


def _checksum(s3: Any, bucket: str, key: str) -> str | None:
    """Return the hash of the newest version as S3 computed it; None if there is none."""
    try:
        head = s3.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
    except ClientError as error:
        if error.response["Error"]["Code"] in _UNSEEN:
            return None
        raise
    return _hex(head.get("ChecksumSHA256", ""))


def _copy(s3: Any, bucket: str, source: tuple[str, str], key: str, expected: str) -> str:
    """Copy one version of an object, and return the version of the copy.

    Where `expected` is the composite checksum of an object in parts (`<base64>-<parts>`), it is
    copied in parts. Raises SealError unless S3 computes the expected hash. Tags and metadata, which
    a job may have written, stay behind.
    """
    if "-" in expected:
        return _copy_in_parts(s3, bucket, source, key, expected)
    name, version = source
    answer = s3.copy_object(
        Bucket=bucket,
        Key=key,
        CopySource={"Bucket": bucket, "Key": name, "VersionId": version},
        ChecksumAlgorithm="SHA256",
        MetadataDirective="REPLACE",
        TaggingDirective="REPLACE",
    )
    checksum = answer["CopyObjectResult"].get("ChecksumSHA256", "")
    _require(_hex(checksum), expected, bucket, source)
    return str(answer["VersionId"])


def _copy_in_parts(s3: Any, bucket: str, source: tuple[str, str], key: str, expected: str) -> str:
    """Copy as `_copy` does; nothing is under the name before S3 has hashed every part."""
    name, version = source
    copied = {"Bucket": bucket, "Key": name, "VersionId": version}
    size = s3.head_object(**copied)["ContentLength"]
    upload = s3.create_multipart_upload(Bucket=bucket, Key=key, ChecksumAlgorithm="SHA256")
    target = {"Bucket": bucket, "Key": key, "UploadId": upload["UploadId"]}

    def copy_part(number: int) -> dict[str, Any]:
        first, end = (number - 1) * PART_BYTES, min(number * PART_BYTES, size)
        answer = s3.upload_part_copy(
            **target,
            PartNumber=number,
            CopySource=copied,
            CopySourceRange=f"bytes={first}-{end - 1}",
        )["CopyPartResult"]
        return {"PartNumber": number, **{name: answer[name] for name in ("ETag", "ChecksumSHA256")}}

    try:
        with ThreadPoolExecutor(PARTS_AT_ONCE) as pool:
            parts = list(pool.map(copy_part, range(1, -(-size // PART_BYTES) + 1)))
        digests = b"".join(base64.b64decode(part["ChecksumSHA256"]) for part in parts)
        composite = base64.b64encode(hashlib.sha256(digests).digest()).decode()
        _require(f"{composite}-{len(parts)}", expected, bucket, source)
        answer = s3.complete_multipart_upload(**target, MultipartUpload={"Parts": parts})
    except BaseException:
        s3.abort_multipart_upload(**target)
        raise
    return str(answer["VersionId"])


def _require(actual: str, expected: str, bucket: str, source: tuple[str, str]) -> None:
    """Raise SealError unless S3 computed the hash that the evaluation measured."""
    if actual != expected:
        raise SealError(
            f"the sha256 of s3://{bucket}/{source[0]} (version {source[1]}) is {actual}, evaluated"
            f" was {expected}: it was written again after it was evaluated"
        )


def _hex(checksum: str) -> str:
    """Return S3's base64 as hexadecimal digits, the composite of an object in parts as it is."""
    return checksum if "-" in checksum else base64.b64decode(checksum).hex()
