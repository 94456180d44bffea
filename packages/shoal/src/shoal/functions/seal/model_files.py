"""Where a model lies, one archive or the files below a prefix, and by which hashes S3 knows it.

S3 has the sha256 of what was stored in one piece, which is up to 5 GB, and of larger objects the
composite of their parts. A digest over those of all files (`model_archive.digest_of`) is what
evaluation.json calls `archive_sha256` of such a model: its `content_sha256`, if none is larger.
"""

import base64
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

AT_ONCE = 8
MAX_FILES = 10_000
"""As of an archive: each is asked for, copied and hashed, in the time of one function."""


def model_data_of(container: Mapping[str, Any]) -> str | None:
    """Return the address in a container of SageMaker's; that of a prefix ends in a slash."""
    source = container.get("ModelDataSource", {}).get("S3DataSource", {})
    url: str | None = container.get("ModelDataUrl") or source.get("S3Uri")
    return url


def heads_of(s3: Any, bucket: str, key: str) -> dict[str, dict[str, Any]]:
    """Return what S3 says of an archive by an empty name, or of each object below a prefix by its
    name, sorted.

    Raise ValueError for names that SageMaker makes no files of (API reference, S3ModelDataSource),
    and for those that a digest could not tell from two names.
    """
    head = partial(s3.head_object, Bucket=bucket, ChecksumMode="ENABLED")
    if not key.endswith("/"):
        return {"": head(Key=key)}
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=key)
    keys = sorted(each["Key"] for page in pages for each in page.get("Contents", ()))
    if len(keys) > MAX_FILES:
        raise ValueError(f"s3://{bucket}/{key} has more than {MAX_FILES} files")
    names = [each.removeprefix(key) for each in keys]
    for name in names:
        # a line break would make two lines of one in the digest's list
        if {"", ".", ".."} & {*name.split("/")} or "\n" in name:
            raise ValueError(f"s3://{bucket}/{key} has {name!r}, which cannot be a file's name")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(names, pool.map(lambda each: head(Key=each), keys), strict=True))


def checksums_below(s3: Any, bucket: str, prefix: str) -> dict[str, str]:
    """Return S3's SHA-256 of each object by its name, "" where it has none."""
    return {name: checksum_of(head) for name, head in heads_of(s3, bucket, prefix).items()}


def checksum_of(answer: Mapping[str, Any]) -> str:
    """Return S3's SHA-256 as hexadecimal digits, the composite of an object in parts as it is."""
    checksum = str(answer.get("ChecksumSHA256", ""))
    return checksum if "-" in checksum else base64.b64decode(checksum).hex()
