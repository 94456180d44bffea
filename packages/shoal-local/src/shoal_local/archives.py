"""Unpack archives from outside: only plain files and folders inside the target, and only up to a
size.

Every member is checked before anything of it is written, so that no name (`../x`, `/x`), link,
device or bomb reaches the machine. Links are refused wherever they point: following them safely has
failed in more than one library (CVE-2025-4517).
"""

import gzip
import tarfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from stat import S_IFMT, S_ISDIR, S_ISREG
from typing import IO, cast

GIB = 1024**3
MAX_UNPACKED_BYTES = 30 * GIB
"""The limit of a model archive here; on AWS it is the instance's storage."""
MAX_MEMBERS = 100_000
STREAMABLE_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Methods of which zipfile unpacks only as many bytes as are asked for.

Of bzip2 and LZMA it unpacks a whole block of the archive at once.
"""
_BLOCK = 1024 * 1024
_DAMAGES = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError),
    RuntimeError,  # of headers of headers, nested too deeply, and of what zipfile does not unpack
)


class BadArchiveError(Exception):
    """An archive that is damaged, or has a member that is not unpacked; `str()` is part of an error
    for a person.
    """


class TooLargeError(BadArchiveError):
    """The archive has more bytes or members than allowed."""


def unpack_tar(path: Path, target: Path, max_bytes: int = MAX_UNPACKED_BYTES) -> None:
    """Unpack a .tar.gz into `target`; raise BadArchiveError when it is damaged or not allowed."""
    target.mkdir(parents=True, exist_ok=True)
    budget = Budget(max_bytes)
    try:
        with gzip.open(path) as stream:
            metered = MeteredStream(stream, max_bytes)
            with tarfile.open(fileobj=cast(IO[bytes], metered), mode="r:") as tar:
                for member in tar:
                    _extract_from_tar(tar, member, target, budget)
            metered.read_to_the_end()
    except _DAMAGES as error:
        raise BadArchiveError(f"{type(error).__name__}: {error}") from error


def unpack_zip(archive: IO[bytes], target: Path, max_bytes: int) -> None:
    """Unpack a zip into `target`, under the same rules; its members are stored or deflated, as
    `zip` writes them.
    """
    budget = Budget(max_bytes)
    try:
        with zipfile.ZipFile(archive) as archive_file:
            for member in archive_file.infolist():
                _extract_from_zip(archive_file, member, target, budget)
    except _DAMAGES as error:
        raise BadArchiveError(f"{type(error).__name__}: {error}") from error


class Budget:
    """The bytes and members that may still be unpacked."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes, self._members = 0, 0

    def add_member(self) -> None:
        self._members += 1
        if self._members > MAX_MEMBERS:
            raise TooLargeError(f"more than {MAX_MEMBERS} files in it")

    def use(self, size_bytes: int) -> None:
        """Raise TooLargeError when the sum is over the limit."""
        self._bytes += size_bytes
        if self._bytes > self._max_bytes:
            raise TooLargeError(f"it unpacks to more than {self._max_bytes} bytes")


class MeteredStream:
    """The stream that tarfile reads from.

    tarfile believes headers, and a header may announce gigabytes, which tarfile would read into
    memory at once. This stream returns at most a block at a time, and at most the allowed bytes in
    all.
    """

    def __init__(self, stream: gzip.GzipFile, max_bytes: int) -> None:
        self._stream, self._budget = stream, Budget(max_bytes)

    def read(self, size_bytes: int) -> bytes:
        """Return the next bytes.

        Raise TooLargeError for more than a block at once or more than the allowed sum. A negative
        size would mean everything, and is refused too.
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
        """Read what follows the last member: gzip's checksum and length stand at the end."""
        while self.read(_BLOCK):
            pass


def _extract_from_tar(
    tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path, budget: Budget
) -> None:
    plain = member.isreg() or member.isdir()
    kind = "" if plain else "link" if member.issym() or member.islnk() else "device"
    if member.isdir() and not member.name:  # "/", as SageMaker's SDK packs a model again
        budget.add_member()
        return
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
    """Return the path of a member; raise BadArchiveError when it must not be unpacked."""
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
        while block := source.read(_BLOCK):
            budget.use(len(block))  # counted here, because sizes in headers may be wrong
            file.write(block)
    place.chmod(mode)
