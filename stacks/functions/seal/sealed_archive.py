"""Sealed archives: copied by S3 to a key that is named by their SHA-256, and proven by S3's own.

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
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import ClientError

MAX_BYTES = 5 * 1024**3
SEALED = "models"
_UNSEEN = ("403", "404")
"""Codes for what does not exist: the first without the right to list the whole bucket (S3 API
reference, HeadObject).
"""


class SealError(Exception):
    """The archive is not the one that was evaluated, or cannot be sealed."""


def seal(s3: Any, url: str, bucket: str, sha256: str, execution: str) -> None:
    """Copy the newest object at `url` to the sealed key in `bucket`.

    A repeated call finds it there, and copies nothing. `execution` names the candidate. Raises
    SealError for an object with another hash.
    """
    if is_sealed(s3, bucket, sha256):
        return
    location = urlsplit(url)
    source = location.netloc, location.path.lstrip("/")
    # Under a name of its own first: the final name never has other bytes, not for a moment.
    candidate = bucket, f"{SEALED}/candidates/{execution}/model.tar.gz"
    version = _copy(s3, source, _version(s3, *source), candidate, sha256)
    _copy(s3, candidate, version, (bucket, sealed_key(sha256)), sha256)


def sealed_key(sha256: str) -> str:
    return f"{SEALED}/{sha256}/model.tar.gz"


def is_sealed(s3: Any, bucket: str, sha256: str) -> bool:
    """Return whether the newest object at the sealed key has the hash, as S3 computed it."""
    try:
        head = s3.head_object(Bucket=bucket, Key=sealed_key(sha256), ChecksumMode="ENABLED")
    except ClientError as error:
        if error.response["Error"]["Code"] in _UNSEEN:
            return False
        raise
    return _hex(head.get("ChecksumSHA256", "")) == sha256


def _version(s3: Any, bucket: str, key: str) -> str:
    head = s3.head_object(Bucket=bucket, Key=key)
    if head["ContentLength"] > MAX_BYTES:
        raise SealError(
            f"s3://{bucket}/{key} has {head['ContentLength']} bytes; up to {MAX_BYTES} can be"
            " sealed: keep optimizer states and checkpoints out of SM_MODEL_DIR"
        )
    return str(head["VersionId"])


def _copy(
    s3: Any, source: tuple[str, str], version: str, target: tuple[str, str], expected: str
) -> str:
    """Copy one version of an object, and return the version of the copy.

    Raises SealError unless S3 computes the expected hash. Tags and metadata, which a job may have
    written, stay behind.
    """
    answer = s3.copy_object(
        Bucket=target[0],
        Key=target[1],
        CopySource={"Bucket": source[0], "Key": source[1], "VersionId": version},
        ChecksumAlgorithm="SHA256",
        MetadataDirective="REPLACE",
        TaggingDirective="REPLACE",
    )
    actual = _hex(answer["CopyObjectResult"].get("ChecksumSHA256", ""))
    if actual != expected:
        raise SealError(
            f"the sha256 of s3://{'/'.join(source)} (version {version}) is {actual}, evaluated was"
            f" {expected}: it was written again after it was evaluated"
        )
    return str(answer["VersionId"])


def _hex(checksum: str) -> str:
    """Return S3's base64 as hexadecimal digits; of a checksum of parts (`...-3`) it as it is."""
    return checksum if "-" in checksum else base64.b64decode(checksum).hex()
