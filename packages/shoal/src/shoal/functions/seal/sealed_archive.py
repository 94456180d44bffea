"""Sealed models: copied by S3 to a key that is named by their SHA-256, and proven by S3's own. A
model is one archive, or the files below a prefix, which ends in a slash.

S3 copies and hashes, so nothing passes through here. Sources: S3 API reference, CopyObject ("you
can optionally specify a different checksum algorithm to use", the answer has ChecksumSHA256, and
"up to 5 GB in size in a single atomic action"); CopyPartResult (ChecksumSHA256 is there "if the
multipart upload request was created with the SHA256 checksum algorithm"); S3 user guide, "Checking
object integrity" (what is stored in one piece has a checksum of the whole object, what was uploaded
in parts the composite of the parts' checksums). Run against shoal-local, whose S3 computes both
likewise; only read for AWS.
"""

import base64
import hashlib
import os
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, ReadTimeoutError
from model_archive import AT_ONCE, checksum_of, digest_of, heads_of

MAX_BYTES = 5 * 1024**3
"""What S3 copies in one piece."""
PART_BYTES = 512 * 1024**2
"""As `training_code/*/evaluate.py` measures parts."""
SEALED = os.environ.get("SEALED_FOLDER", "models")
CANDIDATES = os.environ.get("CANDIDATES_FOLDER", "models/_candidates")
_COMPOSITE = re.compile(r"[A-Za-z0-9+/]{43}=-[1-9][0-9]{0,4}")
_UNSEEN = ("403", "404", "AccessDenied")
"""Codes for what does not exist: the first without the right to list the whole bucket (S3 API
reference, HeadObject), the last where IAM does not know the role's policy yet.
"""
_TEXT = "s3://{Bucket}/{Key} (version {VersionId})"
_PATIENT = Config(read_timeout=300, retries={"mode": "standard", "total_max_attempts": 5})
"""SageMaker does not repeat a Lambda step that S3's SlowDown failed. S3 may send nothing before a
copy is done, a minute or more for 5 GB. After a timeout each attempt would begin another copy,
while the one before it goes on (botocore, `Config`; users report it for boto3 in hydroshare#6091
and for Go in aws-sdk-go-v2#712; read, not run).
"""


Check = Callable[[str, Mapping[str, tuple[str, str]]], None]
"""Raises what keeps the objects below a key from being sealed: names with version and hash."""


class SealError(Exception):
    """The model is not the one that was evaluated, or cannot be sealed."""


@dataclass(frozen=True)
class Digests:
    """Of a model, as the evaluation measured them."""

    sha256: str
    """Of all bytes of an archive, as hexadecimal digits; of files, what `model_archive` says."""
    composite: str
    """S3's composite SHA-256 of an archive's parts, `<base64>-<parts>`; only needed above
    `MAX_BYTES`.
    """
    is_files: bool = False
    """Whether the model is files below a prefix."""

    @property
    def key(self) -> str:
        """Where it is sealed."""
        return f"{SEALED}/{self.sha256}/{self.last}"

    @property
    def last(self) -> str:
        return "model/" if self.is_files else "model.tar.gz"

    def of(self, size: int) -> str:
        """Return the one by which S3 proves a copy of so many bytes, "" for one of several files.

        Raises SealError without.
        """
        if self.is_files:
            return ""
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


def seal(s3: Any, url: str, bucket: str, digests: Digests, execution: str, check: Check) -> None:
    """Copy what is newest at `url` to the sealed key in `bucket`.

    A repeated call finds it there, and copies nothing. `execution` names the candidate. Raises
    SealError for an object with another hash, and what `check` raises.
    """
    key = digests.key
    if metadata_of_sealed(s3, bucket, digests) is not None:
        there = heads_of(s3, bucket, key)
        check(key, {name: (head["VersionId"], checksum_of(head)) for name, head in there.items()})
        return
    heads = {} if digests.is_files else _seen(lambda: heads_of(s3, bucket, key))
    if any("-" in checksum_of(head) for head in heads.values()):
        # S3 proves an archive in parts by their composite alone: its key is what its evaluation
        # says, and another evaluation may say the same of another archive.
        raise SealError(f"s3://{bucket}/{key} has another archive, which is not replaced")
    copy(s3, url, bucket, digests, execution, {}, check)


def copy(
    s3: Any,
    url: str,
    bucket: str,
    digests: Digests,
    execution: str,
    metadata: Mapping[str, str],
    check: Check = lambda *_: None,
) -> None:
    """Copy as `seal` does, also over a sealed archive; the copy has this metadata only."""
    place, _, key = url.removeprefix("s3://").partition("/")
    # Under a name of its own first: the final name never has other bytes, not for a moment.
    candidate = f"{CANDIDATES}/{execution}/{digests.last}"
    heads = heads_of(s3, place, key)

    def try_out(name: str) -> tuple[str, str]:
        size = heads[name]["ContentLength"]
        source = {"Bucket": place, "Key": key + name, "VersionId": str(heads[name]["VersionId"])}
        target = {"Bucket": bucket, "Key": candidate + name}
        return _copy(s3, source, size, target, digests.of(size), {})

    def keep(name: str, tried: tuple[str, str]) -> None:
        source = {"Bucket": bucket, "Key": candidate + name, "VersionId": tried[0]}
        target = {"Bucket": bucket, "Key": digests.key + name}
        _copy(s3, source, heads[name]["ContentLength"], target, tried[1], metadata)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        tried = dict(zip(heads, pool.map(try_out, heads), strict=True))
        if digests.is_files:
            listed = digest_of({name: checksum for name, (_, checksum) in tried.items()})
            _require(listed, digests.sha256, f"the list of files below {url}")
        check(candidate, tried)
        list(pool.map(keep, tried, tried.values()))
    if metadata_of_sealed(s3, bucket, digests) is None:
        raise SealError(f"s3://{bucket}/{digests.key} has other files, too, or may not be listed")


def metadata_of_sealed(s3: Any, bucket: str, digests: Digests) -> dict[str, str] | None:
    """Return the metadata of the sealed model, None if S3 knows none with the hash."""
    heads = _seen(lambda: heads_of(s3, bucket, digests.key))
    checksums = {name: checksum_of(head) for name, head in heads.items()}
    actual = digest_of(checksums) if digests.is_files else checksums.get("")
    if heads and actual and actual in {digests.sha256, digests.composite}:
        return dict(next(iter(heads.values()))["Metadata"])
    return None


def _seen(ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return S3's answer, nothing for what does not exist."""
    try:
        return ask()
    except ClientError as error:
        if error.response["Error"]["Code"] in _UNSEEN:
            return {}
        raise


def _copy(
    s3: Any,
    copied: dict[str, str],
    size: int,
    target: dict[str, str],
    expected: str,
    metadata: Mapping[str, str],
) -> tuple[str, str]:
    """Copy one version of an object, in parts where it is too large for one piece, and return the
    copy's version and hash.

    Raises SealError unless S3 computes the expected hash, if there is one. Tags and metadata, which
    a job may have written, stay behind.
    """
    if size > MAX_BYTES:
        return _copy_in_parts(s3, copied, size, target, expected, metadata)
    answer = s3.copy_object(
        **target,
        CopySource=copied,
        ChecksumAlgorithm="SHA256",
        Metadata=metadata,
        MetadataDirective="REPLACE",
        TaggingDirective="REPLACE",
    )
    checksum = checksum_of(answer["CopyObjectResult"])
    _require(checksum, expected, _TEXT.format_map(copied))
    return str(answer["VersionId"]), checksum


def _copy_in_parts(
    s3: Any,
    copied: dict[str, str],
    size: int,
    target: dict[str, str],
    expected: str,
    metadata: Mapping[str, str],
) -> tuple[str, str]:
    """Copy as `_copy` does; nothing is under the name before S3 has hashed every part."""
    upload = s3.create_multipart_upload(**target, ChecksumAlgorithm="SHA256", Metadata=metadata)
    place = target | {"UploadId": upload["UploadId"]}

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
        with ThreadPoolExecutor(AT_ONCE) as pool:
            parts = list(pool.map(copy_part, range(1, -(-size // PART_BYTES) + 1)))
        hashes = b"".join(base64.b64decode(part["ChecksumSHA256"]) for part in parts)
        composite = base64.b64encode(hashlib.sha256(hashes).digest()).decode()
        checksum = f"{composite}-{len(parts)}"
        _require(checksum, expected, _TEXT.format_map(copied))
        answer = s3.complete_multipart_upload(**place, MultipartUpload={"Parts": parts})
    except BaseException:
        s3.abort_multipart_upload(**place)
        raise
    return str(answer["VersionId"]), checksum


def _require(actual: str, expected: str, what: str) -> None:
    """Raise SealError unless S3 computed the hash that is expected, if there is one."""
    if expected and actual != expected:
        raise SealError(
            f"the sha256 of {what} is {actual}, evaluated was {expected}: it was written again"
            " after it was evaluated"
        )
