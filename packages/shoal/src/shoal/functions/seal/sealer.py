"""Seals an evaluated model: copies it to where no job can write, and proves the copy.

The Lambda step sends `execution_id`, `model_data_url` (where the training job left the archive, or
the prefix of its files), and as the evaluation measured them `archive_sha256` (of files, what
`model_archive` says), `archive_composite_sha256` (only needed for an archive above 5 GB) and
`content_sha256`, which must be the digest of every file of the model. It gets `status`,
`model_data_url` (of the sealed model), `archive_sha256` and `content_sha256`. A problem raises
an error, which fails the step: then nothing is registered.
"""

import logging
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import IO, Any, cast
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError
from model_archive import ArchiveError, digest_mistake, hashes_in
from model_archive import sha256 as sha256_of
from sealed_archive import Digests, SealError, s3_client, seal

SPARE_MS = 30_000
"""What is kept of the step's ten minutes: an archive that takes longer is read by promotion."""
_SHA256 = re.compile(r"[0-9a-f]{64}")

log = logging.getLogger()
log.setLevel(logging.INFO)


def handler(event: dict[str, Any], context: Any) -> dict[str, str]:
    """Seal one model in the bucket in which it lies."""
    digests = {key: _digest(event, key) for key in ("archive_sha256", "content_sha256")}
    url, composite = event["model_data_url"], event.get("archive_composite_sha256") or ""
    is_files = not url.endswith(".tar.gz")
    if is_files:  # training jobs may name their prefix without a slash
        url = f"{url.rstrip('/')}/"
    bucket = urlsplit(url).netloc
    model = Digests(digests["archive_sha256"], composite, is_files)
    s3 = s3_client()
    before_ms = context.get_remaining_time_in_millis()

    def check(key: str, objects: Mapping[str, tuple[str, str]]) -> None:
        # the copy to the sealed name, which follows, takes as long as that to the candidate
        spare_ms = SPARE_MS + before_ms - context.get_remaining_time_in_millis()
        body = partial(_Timed, context=context, spare_ms=spare_ms)
        _require_content(s3, bucket, key, objects, digests["content_sha256"], body)

    seal(s3, url, bucket, model, event["execution_id"], check)
    sealed = f"s3://{bucket}/{model.key}"
    log.info("sealed %s as %s", url, sealed)
    return {"status": "Sealed", "model_data_url": sealed, **digests}


class _UnreadError(Exception):
    """An archive did not come whole, or not in time."""


class _Timed:
    """What S3 sends, as long as there is time; `read` raises _UnreadError afterwards."""

    def __init__(self, body: Any, context: Any, spare_ms: int) -> None:
        self._body, self._context, self._spare_ms = body, context, spare_ms

    def read(self, size: int = -1) -> bytes:
        if self._context.get_remaining_time_in_millis() < self._spare_ms:
            raise _UnreadError("no time is left")
        try:
            return bytes(self._body.read(size if size >= 0 else None))
        except BotoCoreError as error:
            raise _UnreadError(str(error)) from error


def _require_content(
    s3: Any,
    bucket: str,
    key: str,
    objects: Mapping[str, tuple[str, str]],
    evaluated: str,
    timed: Callable[[Any], _Timed],
) -> None:
    """Raise SealError unless the model has the content that was evaluated: every file.

    A file that the digest leaves out could change unseen; without this, only promotion would say
    so. What S3 has no whole hash of is read as a stream, at the speed of one CPU.
    """

    def body_of(name: str) -> tuple[IO[bytes], int]:
        answer = s3.get_object(Bucket=bucket, Key=key + name, VersionId=objects[name][0])
        return cast(IO[bytes], timed(answer["Body"])), answer["ContentLength"]

    try:
        if key.endswith("/"):
            hashes = {name: checksum for name, (_, checksum) in objects.items()}
            for name in [name for name, checksum in hashes.items() if "-" in checksum]:
                hashes[name] = sha256_of(body_of(name)[0])
        else:
            hashes = hashes_in(*body_of(""))
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
