"""Seals an evaluated archive: copies it to where no job can write, and proves the copy.

The Lambda step sends `execution_id`, `model_data_url` (where the training job left the archive),
and as the evaluation measured them `archive_sha256`, `archive_composite_sha256` (only needed above
5 GB) and `content_sha256`. It gets `status`, `model_data_url` (of the sealed archive),
`archive_sha256` and `content_sha256`. A problem raises SealError, which fails the step: then
nothing is registered.
"""

from __future__ import annotations

import logging
import re
from typing import Any
from urllib.parse import urlsplit

from sealed_archive import Digests, SealError, s3_client, seal, sealed_key

_SHA256 = re.compile(r"[0-9a-f]{64}")

log = logging.getLogger()
log.setLevel(logging.INFO)


def handler(event: dict[str, Any], context: Any) -> dict[str, str]:
    """Seal one archive in the bucket in which it lies."""
    digests = {key: _digest(event, key) for key in ("archive_sha256", "content_sha256")}
    url, sha256 = event["model_data_url"], digests["archive_sha256"]
    bucket = urlsplit(url).netloc
    archive = Digests(sha256, event.get("archive_composite_sha256") or "")
    seal(s3_client(), url, bucket, archive, event["execution_id"])
    sealed = f"s3://{bucket}/{sealed_key(sha256)}"
    log.info("sealed %s as %s", url, sealed)
    return {"status": "Sealed", "model_data_url": sealed, **digests}


def _digest(event: dict[str, Any], key: str) -> str:
    """Return a digest from the evaluation. Raises SealError without one."""
    value = event.get(key)
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise SealError(f"{key} is {value!r}: what does evaluation.json say at model.{key}?")
    return value
