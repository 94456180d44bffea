"""Models that jobs wrote, one archive or the files below a prefix, and their hashes.

S3 has the sha256 of what was stored in one piece, which is up to 5 GB, and of larger objects the
composite of their parts. A digest over those of all files (`digest_of`) is what evaluation.json
calls `archive_sha256` of such a model: its `content_sha256`, if none is larger.

Archives are read without believing them: what they unpack to, the length of a header and the number
of files are bounded.
"""

import base64
import gzip
import hashlib
import os
import posixpath
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import combinations
from typing import IO, Any, cast

AT_ONCE = 8
MAX_FILES = 10_000
"""Of an archive, or below a prefix: each is copied and hashed, in the time of one function."""
MAX_CODE_BYTES = 64 * 1024 * 1024
"""The code archive's content, unpacked: it is held in memory."""
_BLOCK_BYTES = 64 * 1024
_DAMAGE = (tarfile.TarError, zlib.error, EOFError, OSError, KeyError)
_MAX_RATIO = 50
_SPARE_BYTES = 1024**3
"""Weights hardly compress; what is small may compress well."""
_MAX_LEFT_OUT, _MAX_PARTS = 3, 20
"""Of the files and folders at an archive's top: those that a digest may have left out are tried."""


class ArchiveError(ValueError):
    """The archive is damaged, or larger than an honest one."""


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


def files_in(
    archive: IO[bytes], max_bytes: int | None = None, size_bytes: int | None = None
) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """Yield each member of a .tar.gz, and its content if it is a file. Raise ArchiveError.

    Members behind an end or a damaged header count too, because some programs unpack them (tar:
    "Skipping to next header"). An archive of known `size_bytes` is read once from where it is, and
    need not be seekable.
    """
    if size_bytes is None:
        size_bytes = archive.seek(0, os.SEEK_END)
        archive.seek(0)
    limit = _MAX_RATIO * size_bytes + _SPARE_BYTES
    stream = _BoundedStream(archive, min(limit, max_bytes or limit))
    with (
        _damage(),
        tarfile.open(fileobj=cast(IO[bytes], stream), mode="r:", ignore_zeros=True) as tar,
    ):
        for number, member in enumerate(tar, start=1):
            if number > MAX_FILES:
                raise ArchiveError(f"it has more than {MAX_FILES} files")
            # holes of terabytes take no bytes of the archive, but hours to hash
            if member.issparse() or member.size < 0:
                raise ArchiveError(f"{member.name} is a sparse file, or of negative size")
            yield member, tar.extractfile(member) if member.isfile() else None


def plain_files_in(
    archive: IO[bytes], max_bytes: int | None = None, size_bytes: int | None = None
) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield path and content of each file of a .tar.gz.

    Raise ArchiveError if two programs could unpack it differently: if two files have one name, or
    something is neither a file nor a folder.
    """
    names = set[str]()
    for member, file in files_in(archive, max_bytes, size_bytes):
        name = posixpath.normpath(member.name)
        if file is not None:
            if name in names:
                raise ArchiveError(f"it has two files {name}")
            names.add(name)
            yield name, file
        elif not member.isdir():
            raise ArchiveError(f"{name} is neither a file nor a folder")


def deployed_name(archive: IO[bytes]) -> str:
    """Return the name that a deployment gives a code archive, by its unpacked bytes.

    The CDK hashes the hash of packages/shoal/src/shoal/constructs/pipeline/code_archive.py once
    more (`calculateHash` of AssetStaging). Raise ArchiveError if it is too large, or none.
    """
    archive.seek(0)
    unpacked = sha256(cast(IO[bytes], _BoundedStream(archive, MAX_CODE_BYTES)))
    return hashlib.sha256(unpacked.encode()).hexdigest()


def content_sha256(archive: IO[bytes]) -> str:
    """Return the digest of a model.tar.gz that its container answers.

    Raise ArchiveError if two programs could unpack it differently.
    """
    return digest_of(hashes_in(archive))


def hashes_in(archive: IO[bytes], size_bytes: int | None = None) -> dict[str, str]:
    """Return the sha256 of each file of a model.tar.gz, by path. Raise as `content_sha256` does."""
    files = plain_files_in(archive, size_bytes=size_bytes)
    return {name: sha256(file) for name, file in files}


def digest_of(hashes: Mapping[str, str]) -> str:
    """Return the sha256 of what `sha256sum` prints for the files, sorted by path."""
    listing = "".join(f"{digest}  {name}\n" for name, digest in sorted(hashes.items()))
    return hashlib.sha256(listing.encode(errors="surrogateescape")).hexdigest()


def digest_mistake(hashes: Mapping[str, str], evaluated: str) -> str | None:
    """Return why `evaluated` is not the digest of the files, and what to do; None if it is."""
    if (actual := digest_of(hashes)) == evaluated:
        return None
    message = f"the content of the archive is {actual}, evaluated was {evaluated}"
    parts = {name.split("/")[0] for name in hashes}
    parts |= {name for name in hashes if "__pycache__" in name}
    for count in range(1, _MAX_LEFT_OUT + 1):
        for left_out in combinations(sorted(parts)[:_MAX_PARTS], count):
            kept = {
                name: sha
                for name, sha in hashes.items()
                if name not in left_out and name.split("/")[0] not in left_out
            }
            if digest_of(kept) == evaluated:
                return (
                    f"{message}, which leaves out {', '.join(left_out)}; let evaluate.py and"
                    " inference.py take content_sha256 over every file of the model, as the"
                    " archive.py of `shoal new` does"
                )
    return message


def sha256(file: IO[bytes]) -> str:
    """Return the hash of the rest of a file of any size. Raise ArchiveError if it is damaged."""
    digest = hashlib.sha256()
    with _damage():
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def read(file: IO[bytes]) -> bytes:
    """Return the content of a file of code; a larger one is cut off, and so no file of a commit.
    Raise ArchiveError if it is damaged.
    """
    blocks = (file.read(_BLOCK_BYTES) for _ in range(MAX_CODE_BYTES // _BLOCK_BYTES))
    with _damage():
        return b"".join(iter(partial(next, blocks, b""), b""))


@contextmanager
def _damage() -> Iterator[None]:
    """Raise ArchiveError for what reading an archive raises, header or content."""
    try:
        yield
    except (*_DAMAGE, ValueError, RecursionError) as error:  # the last two of pax headers
        raise ArchiveError(str(error)) from error


class _BoundedStream(gzip.GzipFile):
    """Bytes for tarfile, which reads and skips as many as a header announces."""

    def __init__(self, archive: IO[bytes], max_bytes: int) -> None:
        super().__init__(fileobj=archive, mode="rb")
        self._max_bytes = max_bytes

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= _BLOCK_BYTES:
            raise tarfile.ReadError(f"a header of it has more than {_BLOCK_BYTES} bytes")
        self._require(self.tell())
        return super().read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._require(offset)
        return super().seek(offset, whence)

    def _require(self, end: int) -> None:
        if end > self._max_bytes:
            raise tarfile.ReadError(f"it unpacks to more than {self._max_bytes} bytes")
