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
from typing import IO, Any, cast
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError
from model_archive import ArchiveError, digest_mistake, hashes_in
from sealed_archive import Digests, SealError, s3_client, seal, sealed_key

SPARE_MS = 30_000
"""What is kept of the step's ten minutes: an archive that takes longer is read by promotion."""
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
    _require_content(s3, bucket, sealed_key(sha256), digests["content_sha256"], context)
    log.info("sealed %s as %s", url, sealed)
    return {"status": "Sealed", "model_data_url": sealed, **digests}


class _UnreadError(Exception):
    """An archive did not come whole, or not in time."""


class _Timed:
    """What S3 sends, as long as there is time; `read` raises _UnreadError afterwards."""

    def __init__(self, body: Any, context: Any) -> None:
        self._body, self._context = body, context

    def read(self, size: int = -1) -> bytes:
        if self._context.get_remaining_time_in_millis() < SPARE_MS:
            raise _UnreadError("no time is left")
        try:
            return bytes(self._body.read(size if size >= 0 else None))
        except BotoCoreError as error:
            raise _UnreadError(str(error)) from error


def _require_content(s3: Any, bucket: str, key: str, evaluated: str, context: Any) -> None:
    """Raise SealError unless the sealed archive has the content that was evaluated: every file.

    A file that the digest leaves out could change unseen; without this, only promotion would say
    so. The archive is read as a stream, at the speed of one CPU.
    """
    answer = s3.get_object(Bucket=bucket, Key=key)
    try:
        body = cast(IO[bytes], _Timed(answer["Body"], context))
        hashes = hashes_in(body, answer["ContentLength"])
    except _UnreadError as error:
        # what is sealed is what was evaluated; only its list of files is not compared yet
        log.warning("s3://%s/%s was not read whole: %s; promotion reads it", bucket, key, error)
        return
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
