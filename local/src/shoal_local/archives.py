"""Archives that somebody else made: only plain files and folders that stay inside the target are
unpacked, and only up to a size.

Every member is looked at before anything of it is written, so that neither a name (`../x`, `/x`), a
link, a device nor a bomb reaches the machine. Links are refused wherever they point: following them
safely has failed in more than one library (CVE-2025-4517).
"""

from __future__ import annotations

import gzip
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from stat import S_IFMT, S_ISDIR, S_ISREG
from typing import IO, cast

GIB = 1024**3
MAX_UNPACKED_BYTES = 30 * GIB
"""Of a model archive, here; AWS's bound is the instance's storage."""
MAX_MEMBERS = 100_000
STREAMABLE_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What zipfile unpacks no more of at once than is asked for.

Of bzip2 and LZMA it unpacks all that a block of the archive holds.
"""
_BLOCK = 1024 * 1024


class BadArchiveError(Exception):
    """An archive that is damaged, or that holds what is not unpacked; `str()` is part of an error
    for a person.
    """


class TooLargeError(BadArchiveError):
    """More in it than is allowed."""


def unpack_tar(path: Path, target: Path, max_bytes: int = MAX_UNPACKED_BYTES) -> None:
    """Unpack a .tar.gz into `target`; BadArchiveError when it is damaged or must not be."""
    target.mkdir(parents=True, exist_ok=True)
    budget = Budget(max_bytes)
    try:
        with gzip.open(path) as stream:
            metered = MeteredStream(stream, max_bytes)
            with tarfile.open(fileobj=cast(IO[bytes], metered), mode="r:") as tar:
                for member in tar:
                    _extract_from_tar(tar, member, target, budget)
            metered.read_to_the_end()
    except (
        tarfile.TarError,
        zlib.error,
        EOFError,
        OSError,
        ValueError,
        RuntimeError,
    ) as error:  # the last: headers of headers, nested
        raise BadArchiveError(f"{type(error).__name__}: {error}") from error


def unpack_zip(archive: IO[bytes], target: Path, max_bytes: int) -> None:
    """Unpack a zip into `target`, the same way; its members are stored or deflated, as `zip`
    does.
    """
    budget = Budget(max_bytes)
    try:
        with zipfile.ZipFile(archive) as archive_file:
            for member in archive_file.infolist():
                _extract_from_zip(archive_file, member, target, budget)
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        NotImplementedError,
        RuntimeError,
        OSError,
        ValueError,
    ) as error:
        raise BadArchiveError(f"{type(error).__name__}: {error}") from error


class Budget:
    """What may still be written."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes, self._members = 0, 0

    def add_member(self) -> None:
        self._members += 1
        if self._members > MAX_MEMBERS:
            raise TooLargeError(f"more than {MAX_MEMBERS} files in it")

    def use(self, size_bytes: int) -> None:
        """TooLargeError when the sum is over the limit."""
        self._bytes += size_bytes
        if self._bytes > self._max_bytes:
            raise TooLargeError(f"it unpacks to more than {self._max_bytes} bytes")


class MeteredStream:
    """What tarfile reads from.

    It takes what a header says for granted, and a header may say that it has gigabytes: those it
    would read at once, into memory. Here it gets no more at once than a block, and no more in all
    than is allowed.
    """

    def __init__(self, stream: gzip.GzipFile, max_bytes: int) -> None:
        self._stream, self._budget = stream, Budget(max_bytes)

    def read(self, size_bytes: int) -> bytes:
        """TooLargeError for more than a block at once, or in all than is allowed; a negative size
        would mean all there is.
        """
        if not 0 <= size_bytes <= _BLOCK:
            raise TooLargeError(f"a header of {size_bytes} bytes in it")
        block = self._stream.read(size_bytes)
        self._budget.use(len(block))
        return block

    def seek(self, position: int) -> int:
        return self._stream.seek(position)

    def tell(self) -> int:
        return self._stream.tell()

    def read_to_the_end(self) -> None:
        """tarfile stops where the members end; gzip's checksum, and whether anything is missing, is
        known behind that.
        """
        while self.read(_BLOCK):
            pass


def _extract_from_tar(
    tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path, budget: Budget
) -> None:
    kind = (
        "link"
        if member.issym() or member.islnk()
        else ""
        if member.isreg() or member.isdir()
        else "device"
    )
    place = _place(member.name, kind, target, budget)
    if member.isdir():
        place.mkdir(parents=True, exist_ok=True)
    elif source := tar.extractfile(member):
        _write(source, place, 0o755 if member.mode & 0o100 else 0o644, budget)


def _extract_from_zip(
    archive_file: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path, budget: Budget
) -> None:
    mode = member.external_attr >> 16
    plain = not S_IFMT(mode) or S_ISREG(mode) or S_ISDIR(mode)
    place = _place(member.filename, "" if plain else "link or device", target, budget)
    if member.is_dir():
        place.mkdir(parents=True, exist_ok=True)
    elif member.compress_type not in STREAMABLE_METHODS:
        method = f"method {member.compress_type}; 0 (stored) or 8 (deflate) is needed"
        raise BadArchiveError(f"{_quoted(member.filename)} is compressed with {method}")
    else:
        with archive_file.open(member) as source:
            _write(source, place, 0o755 if mode & 0o100 else 0o644, budget)


def _place(name: str, kind: str, target: Path, budget: Budget) -> Path:
    """Where the member belongs; BadArchiveError when it is nothing to be unpacked."""
    budget.add_member()
    if kind:
        raise BadArchiveError(
            f"{_quoted(name)} is a {kind}; only plain files and folders are unpacked"
        )
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if (
        not name
        or name.startswith(("/", "\\"))
        or ".." in parts
        or "\0" in name
        or any(part.endswith(":") for part in parts[:1])
    ):
        raise BadArchiveError(
            f"{_quoted(name)} would be written outside the folder that it is unpacked into"
        )
    return target.joinpath(*parts)


def _quoted(name: str) -> str:
    return repr(name if len(name) <= 200 else name[:200] + "...")


def _write(source: IO[bytes], place: Path, mode: int, budget: Budget) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("wb") as file:
        for block in _blocks(source):
            budget.use(len(block))  # counted as it comes: what headers say may be a lie
            file.write(block)
    place.chmod(mode)


def _blocks(source: IO[bytes]) -> Iterator[bytes]:
    while block := source.read(_BLOCK):
        yield block
