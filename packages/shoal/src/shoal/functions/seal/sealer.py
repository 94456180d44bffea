"""Seals an evaluated archive: copies it to where no job can write, and proves the copy.

The Lambda step sends `execution_id`, `model_data_url` (where the training job left the archive),
and as the evaluation measured them `archive_sha256`, `archive_composite_sha256` (only needed above
5 GB) and `content_sha256`, which must be the digest of every file in the archive. It gets `status`,
`model_data_url` (of the sealed archive), `archive_sha256` and `content_sha256`. A problem raises
SealError, which fails the step: then nothing is registered.
"""

from __future__ import annotations

import logging
import re
from typing import Any
from urllib.parse import urlsplit

from model_archive import ArchiveError, digest_mistake, hashes_in
from sealed_archive import Digests, SealError, s3_client, seal, sealed_key

MAX_READ_BYTES = 20 * 1024**3
"""What is read within the step's ten minutes; 80 MB in a second are assumed, not measured."""
_SHA256 = re.compile(r"[0-9a-f]{64}")

log = logging.getLogger()
log.setLevel(logging.INFO)


def handler(event: dict[str, Any], context: Any) -> dict[str, str]:
    """Seal one archive in the bucket in which it lies."""
    digests = {key: _digest(event, key) for key in ("archive_sha256", "content_sha256")}
    url, sha256 = event["model_data_url"], digests["archive_sha256"]
    bucket = urlsplit(url).netloc
    archive = Digests(sha256, event.get("archive_composite_sha256") or "")
    s3 = s3_client()
    seal(s3, url, bucket, archive, event["execution_id"])
    sealed = f"s3://{bucket}/{sealed_key(sha256)}"
    _require_content(s3, bucket, sealed_key(sha256), digests["content_sha256"])
    log.info("sealed %s as %s", url, sealed)
    return {"status": "Sealed", "model_data_url": sealed, **digests}


def _require_content(s3: Any, bucket: str, key: str, evaluated: str) -> None:
    """Raise SealError unless the sealed archive has the content that was evaluated: every file.

    A file that the digest leaves out could change unseen; without this, only promotion would say
    so. The archive is read as a stream, at the speed of one CPU.
    """
    answer = s3.get_object(Bucket=bucket, Key=key)
    if answer["ContentLength"] > MAX_READ_BYTES:
        log.warning("s3://%s/%s is too large to be read here; promotion reads it", bucket, key)
        return
    try:
        hashes = hashes_in(answer["Body"], answer["ContentLength"])
    except ArchiveError as error:
        raise SealError(f"s3://{bucket}/{key} is no archive of a model: {error}") from error
    if mistake := digest_mistake(hashes, evaluated):
        raise SealError(f"hash mismatch: {mistake}")


def _digest(event: dict[str, Any], key: str) -> str:
    """Return a digest from the evaluation. Raises SealError without one."""
    value = event.get(key)
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise SealError(f"{key} is {value!r}: what does evaluation.json say at model.{key}?")
    return value
