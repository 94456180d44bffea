"""Reads model.tar.gz, says which model it is, and puts the code that serves beside a model.

Evaluation and inference share it. It needs the standard library of Python 3.9 alone: the Python of
a serving container may have nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import pickle
import shutil
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

OF_SERVER = ("MAR-INF", "handler_service.py")
"""What TorchServe's archiver adds in a container (sagemaker-pytorch-inference-toolkit; read)."""
MAX_WHOLE_BYTES, PART_BYTES = 5 * 1024**3, 512 * 1024**2
"""As the step Seal copies what is too large for one piece."""
UNREADABLE = (
    *(RuntimeError, OSError, EOFError, LookupError, AttributeError, TypeError, ValueError),
    pickle.UnpicklingError,
)
"""What torch and json raise for a file that is damaged, cut off, or something else."""
SERVED = ("__init__.py", "archive.py")
"""The modules of this package that inference.py imports."""
_BLOCK_BYTES = 1024 * 1024


def save_code(model_dir: Path, source_dir: Path, names: Sequence[str]) -> None:
    """Copy files of `source_dir`, and of this package what they need, to `model_dir`/code.

    The endpoint runs them; `shoal promote` compares them with the commit.
    """
    common = Path(__file__).parent
    files = {name: source_dir / name for name in names}
    for name, file in (files | {f"{common.name}/{each}": common / each for each in SERVED}).items():
        copy = model_dir / "code" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)


def content_sha256(folder: Path, hash_of: Callable[[Path], str] | None = None) -> str:
    """Return the digest of a model: of every file in its folder, wherever it is unpacked.

    It is the sha256 of what `sha256sum` prints for the files, sorted by path. What a server adds
    and Python compiles does not count; `unpack` refuses an archive that brings such files.
    With `hash_of` a file's hash is what that returns. Raise ValueError for a line break in a name.
    """
    hash_of = hash_of or file_sha256
    listing = hashlib.sha256()
    files = [(file.relative_to(folder), file) for file in folder.rglob("*") if file.is_file()]
    for path, file in sorted(files, key=lambda pair: pair[0].as_posix()):
        if path.parts[0] not in OF_SERVER and "__pycache__" not in path.parts:
            if "\n" in path.as_posix():
                raise ValueError(f"{path.as_posix()!r} would be two files in the digest")
            listing.update(f"{hash_of(file)}  {path.as_posix()}\n".encode())
    return listing.hexdigest()


def file_sha256(file: Path) -> str:
    """Return the sha256 of a file of any size."""
    with file.open("rb") as stream:
        return _sha256(stream, file.stat().st_size).hex()


def s3_sha256(file: Path) -> str:
    """Return the hash that S3 has of a file which is kept as it is: above 5 GB the composite."""
    is_whole = file.stat().st_size <= MAX_WHOLE_BYTES
    return file_sha256(file) if is_whole else composite_sha256(file)


def composite_sha256(file: Path) -> str:
    """Return what S3 calls the composite SHA-256 of an object in parts: `<base64>-<parts>`."""
    with file.open("rb") as stream:
        parts = [_sha256(stream, PART_BYTES) for _ in range(0, file.stat().st_size, PART_BYTES)]
    return f"{base64.b64encode(hashlib.sha256(b''.join(parts)).digest()).decode()}-{len(parts)}"


def _sha256(stream: IO[bytes], size_bytes: int) -> bytes:
    """Return the digest of the next bytes of a stream, at most so many."""
    digest = hashlib.sha256()
    while size_bytes and (block := stream.read(min(_BLOCK_BYTES, size_bytes))):
        digest.update(block)
        size_bytes -= len(block)
    return digest.digest()


def unpack(archive: Path, folder: Path) -> None:
    """Extract the archive into `folder`.

    Raise ValueError if it is missing, damaged, reaches outside `folder`, or has files that another
    program could unpack or serve otherwise: every byte that serves must be one that was measured.
    """
    if not archive.is_file():
        raise ValueError(f"{archive} does not exist")
    try:
        with tarfile.open(archive) as tar:
            _require_content(tar)
            _extract(tar, folder)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError(f"{archive} cannot be unpacked: {' '.join(str(error).split())}") from error


def _require_content(tar: tarfile.TarFile) -> None:
    for member in tar.getmembers():
        parts = [part for part in member.name.split("/") if part != "."]
        if {*parts[:1]} & {*OF_SERVER} or "__pycache__" in parts or "\\" in member.name:
            raise tarfile.TarError(f"{member.name!r} does not belong into a model")


def _extract(tar: tarfile.TarFile, folder: Path) -> None:
    """Extract with Python's own filter where it has one.

    AWS's older images (Python 3.9.10, 3.10.8) have none. Raise TarError.
    """
    if hasattr(tarfile, "data_filter"):
        tar.extractall(folder, filter="data")
        return
    for member in tar.getmembers():
        if not (folder / member.name).resolve().is_relative_to(folder.resolve()):
            raise tarfile.TarError(f"{member.name!r} would be extracted to outside the folder")
        if not (member.isfile() or member.isdir()):
            raise tarfile.TarError(f"{member.name!r} is neither a file nor a folder")
    tar.extractall(folder)  # noqa: S202 - every member was looked at above
