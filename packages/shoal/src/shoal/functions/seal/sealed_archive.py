"""Sealed archives: copied by S3 to a key that is named by their SHA-256, and proven by S3's own.

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
import os
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, ReadTimeoutError

MAX_BYTES = 5 * 1024**3
"""What S3 copies in one piece."""
PART_BYTES = 512 * 1024**2
"""As `training_code/*/evaluate.py` measures parts."""
PARTS_AT_ONCE = 8
SEALED = os.environ.get("SEALED_FOLDER", "models")
CANDIDATES = os.environ.get("CANDIDATES_FOLDER", "models/_candidates")
_COMPOSITE = re.compile(r"[A-Za-z0-9+/]{43}=-[1-9][0-9]{0,4}")
_UNSEEN = ("403", "404")
"""Codes for what does not exist: the first without the right to list the whole bucket (S3 API
reference, HeadObject).
"""
_PATIENT = Config(read_timeout=300, retries={"mode": "standard", "total_max_attempts": 5})
"""SageMaker does not repeat a Lambda step that S3's SlowDown failed. S3 may send nothing before a
copy is done, a minute or more for 5 GB. After a timeout each attempt would begin another copy,
while the one before it goes on (botocore, `Config`; users report it for boto3 in hydroshare#6091
and for Go in aws-sdk-go-v2#712; read, not run).
"""


class SealError(Exception):
    """The archive is not the one that was evaluated, or cannot be sealed."""


@dataclass(frozen=True)
class Digests:
    """Of an archive, as the evaluation measured them."""

    sha256: str
    """Of all its bytes, as hexadecimal digits."""
    composite: str
    """S3's composite SHA-256 of its parts, `<base64>-<parts>`; only needed above `MAX_BYTES`."""

    def of(self, size: int) -> str:
        """Return the one by which S3 proves a copy of so many bytes. Raises SealError without."""
        if size <= MAX_BYTES:
            return self.sha256
        if not _COMPOSITE.fullmatch(self.composite):
            raise SealError(
                f"an archive of {size} bytes is copied in parts, and their composite SHA-256 is"
                f" {self.composite!r}: what does evaluation.json say at"
                " model.archive_composite_sha256?"
            )
        return self.composite


def s3_client() -> Any:
    """Return a client that waits for copies, and repeats what S3 refuses but no timeout."""

    def end(caught_exception: Exception | None = None, **_: Any) -> None:
        if isinstance(caught_exception, ReadTimeoutError):
            raise caught_exception

    client = boto3.client("s3", config=_PATIENT)
    client.meta.events.register_first("needs-retry", end)
    return client


def seal(s3: Any, url: str, bucket: str, digests: Digests, execution: str) -> None:
    """Copy the newest object at `url` to the sealed key in `bucket`.

    A repeated call finds it there, and copies nothing. `execution` names the candidate. Raises
    SealError for an object with another hash.
    """
    if is_sealed(s3, bucket, digests):
        return
    key = sealed_key(digests.sha256)
    if "-" in _head(s3, bucket, key).get("ChecksumSHA256", ""):
        # S3 proves an archive in parts by their composite alone: its key is what its evaluation
        # says, and another evaluation may say the same of another archive.
        raise SealError(f"s3://{bucket}/{key} has another archive, which is not replaced")
    copy(s3, url, bucket, digests, execution, {})


def copy(
    s3: Any,
    url: str,
    bucket: str,
    digests: Digests,
    execution: str,
    metadata: Mapping[str, str],
) -> None:
    """Copy as `seal` does, also over a sealed archive; the copy has this metadata only."""
    source_bucket, _, key = url.removeprefix("s3://").partition("/")
    source = source_bucket, key
    head = s3.head_object(Bucket=source[0], Key=source[1])
    expected = digests.of(head["ContentLength"])
    # Under a name of its own first: the final name never has other bytes, not for a moment.
    candidate = bucket, f"{CANDIDATES}/{execution}/model.tar.gz"
    version = _copy(s3, source, str(head["VersionId"]), candidate, expected, {})
    _copy(s3, candidate, version, (bucket, sealed_key(digests.sha256)), expected, metadata)


def sealed_key(sha256: str) -> str:
    return f"{SEALED}/{sha256}/model.tar.gz"


def is_sealed(s3: Any, bucket: str, digests: Digests) -> bool:
    """Return whether the newest object at the sealed key has the hash, as S3 computed it."""
    return metadata_of_sealed(s3, bucket, digests) is not None


def metadata_of_sealed(s3: Any, bucket: str, digests: Digests) -> dict[str, str] | None:
    """Return the metadata of the sealed archive, None if there is none with the hash."""
    head = _head(s3, bucket, sealed_key(digests.sha256))
    checksum = _hex(head.get("ChecksumSHA256", ""))
    proven = bool(checksum) and checksum in {digests.sha256, digests.composite}
    return dict(head["Metadata"]) if proven else None


def _head(s3: Any, bucket: str, key: str) -> dict[str, Any]:
    """Return what S3 says of an object; nothing if there is none."""
    try:
        return dict(s3.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED"))
    except ClientError as error:
        if error.response["Error"]["Code"] in _UNSEEN:
            return {}
        raise


def _copy(
    s3: Any,
    source: tuple[str, str],
    version: str,
    target: tuple[str, str],
    expected: str,
    metadata: Mapping[str, str],
) -> str:
    """Copy one version of an object, and return the version of the copy.

    Where `expected` is the composite checksum of an object in parts, it is copied in parts. Raises
    SealError unless S3 computes the expected hash. Tags and metadata, which a job may have written,
    stay behind.
    """
    copied = {"Bucket": source[0], "Key": source[1], "VersionId": version}
    if "-" in expected:
        return _copy_in_parts(s3, copied, target, expected, metadata)
    answer = s3.copy_object(
        Bucket=target[0],
        Key=target[1],
        CopySource=copied,
        ChecksumAlgorithm="SHA256",
        Metadata=metadata,
        MetadataDirective="REPLACE",
        TaggingDirective="REPLACE",
    )
    _require(_hex(answer["CopyObjectResult"].get("ChecksumSHA256", "")), expected, copied)
    return str(answer["VersionId"])


def _copy_in_parts(
    s3: Any,
    copied: dict[str, str],
    target: tuple[str, str],
    expected: str,
    metadata: Mapping[str, str],
) -> str:
    """Copy as `_copy` does; nothing is under the name before S3 has hashed every part."""
    size = s3.head_object(**copied)["ContentLength"]
    place = {"Bucket": target[0], "Key": target[1]}
    upload = s3.create_multipart_upload(**place, ChecksumAlgorithm="SHA256", Metadata=metadata)
    place["UploadId"] = upload["UploadId"]

    def copy_part(number: int) -> dict[str, Any]:
        first, end = (number - 1) * PART_BYTES, min(number * PART_BYTES, size)
        answer = s3.upload_part_copy(
            **place,
            PartNumber=number,
            CopySource=copied,
            CopySourceRange=f"bytes={first}-{end - 1}",
        )["CopyPartResult"]
        return {"PartNumber": number, **{name: answer[name] for name in ("ETag", "ChecksumSHA256")}}

    try:
        with ThreadPoolExecutor(PARTS_AT_ONCE) as pool:
            parts = list(pool.map(copy_part, range(1, -(-size // PART_BYTES) + 1)))
        hashes = b"".join(base64.b64decode(part["ChecksumSHA256"]) for part in parts)
        composite = base64.b64encode(hashlib.sha256(hashes).digest()).decode()
        _require(f"{composite}-{len(parts)}", expected, copied)
        answer = s3.complete_multipart_upload(**place, MultipartUpload={"Parts": parts})
    except BaseException:
        s3.abort_multipart_upload(**place)
        raise
    return str(answer["VersionId"])


def _require(actual: str, expected: str, copied: dict[str, str]) -> None:
    """Raise SealError unless S3 computed the hash that the evaluation measured."""
    if actual != expected:
        raise SealError(
            f"the sha256 of s3://{copied['Bucket']}/{copied['Key']} (version"
            f" {copied['VersionId']}) is {actual}, evaluated was {expected}: it was written again"
            " after it was evaluated"
        )


def _hex(checksum: str) -> str:
    """Return S3's base64 as hexadecimal digits, the composite of an object in parts as it is."""
    return checksum if "-" in checksum else base64.b64decode(checksum).hex()
