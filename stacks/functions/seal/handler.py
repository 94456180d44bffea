"""Seals an evaluated archive: copies it to where no job can write, and proves the copy.

The Lambda step sends `execution_id`, `model_data_url` (where the training job left the archive),
`archive_sha256` and `content_sha256` (both as the evaluation measured them). It gets `status`,
`model_data_url` (of the sealed archive) and both digests. A problem raises SealError, which fails
the step: then nothing is registered.

S3 copies and hashes, so nothing passes through here. Sources: S3 API reference, CopyObject ("you
can optionally specify a different checksum algorithm to use", the answer has ChecksumSHA256, and
"up to 5 GB in size in a single atomic action"); S3 user guide, "Checking object integrity" (what is
stored in one piece has a checksum of the whole object, what was uploaded in parts a checksum of the
parts' checksums). Run against shoal-local, whose S3 computes the checksum of a copy likewise; only
read for AWS.

An archive of more than 5 GB is refused. It could be copied with UploadPartCopy, and proven by the
SHA-256 of each part, which the evaluation would have to write down: S3 has no SHA-256 of a whole
object that was uploaded in parts, and its CRC64NVME can be forged.
"""

from __future__ import annotations

import base64
import logging
import re
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.exceptions import ClientError

MAX_BYTES = 5 * 1024**3
SEALED = "models"
_SHA256 = re.compile(r"[0-9a-f]{64}")
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
    digests = {key: _digest(event, key) for key in ("archive_sha256", "content_sha256")}
    location, s3 = urlsplit(event["model_data_url"]), boto3.client("s3")
    bucket, key = location.netloc, location.path.lstrip("/")
    archive_sha256 = digests["archive_sha256"]
    sealed = f"{SEALED}/{archive_sha256}/model.tar.gz"
    if _checksum(s3, bucket, sealed) != archive_sha256:
        # Under a name of its own first: the final name never has other bytes, not for a moment.
        candidate = f"{SEALED}/candidates/{event['execution_id']}/model.tar.gz"
        version = _version(s3, bucket, key)
        version = _copy(s3, bucket, (key, version), candidate, archive_sha256)
        _copy(s3, bucket, (candidate, version), sealed, archive_sha256)
    log.info("sealed %s as %s", event["model_data_url"], sealed)
    return {"status": "Sealed", "model_data_url": f"s3://{bucket}/{sealed}", **digests}


def _digest(event: dict[str, Any], key: str) -> str:
    """Return a digest from the evaluation. Raises SealError without one."""
    value = event.get(key)
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
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


def _version(s3: Any, bucket: str, key: str) -> str:
    head = s3.head_object(Bucket=bucket, Key=key)
    if head["ContentLength"] > MAX_BYTES:
        raise SealError(
            f"s3://{bucket}/{key} has {head['ContentLength']} bytes; up to {MAX_BYTES} can be"
            " sealed: keep optimizer states and checkpoints out of SM_MODEL_DIR"
        )
    return str(head["VersionId"])


def _copy(s3: Any, bucket: str, source: tuple[str, str], key: str, expected: str) -> str:
    """Copy one version of an object, and return the version of the copy.

    Raises SealError unless S3 computes the expected hash. Tags and metadata, which a job may have
    written, stay behind.
    """
    name, version = source
    answer = s3.copy_object(
        Bucket=bucket,
        Key=key,
        CopySource={"Bucket": bucket, "Key": name, "VersionId": version},
        ChecksumAlgorithm="SHA256",
        MetadataDirective="REPLACE",
        TaggingDirective="REPLACE",
    )
    actual = _hex(answer["CopyObjectResult"].get("ChecksumSHA256", ""))
    if actual != expected:
        raise SealError(
            f"the sha256 of s3://{bucket}/{name} (version {version}) is {actual}, evaluated was"
            f" {expected}: it was written again after it was evaluated"
        )
    return str(answer["VersionId"])


def _hex(checksum: str) -> str:
    """Return S3's base64 as hexadecimal digits; of a checksum of parts (`...-3`) it as it is."""
    return checksum if "-" in checksum else base64.b64decode(checksum).hex()
