"""The model's archive: what belongs into it, and its digest. Keep this file as it is: promotion and
the smoke test compute the same digest.
"""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path

METADATA_FILE = "model.json"
CONTENT = ("1", "code", METADATA_FILE, "model.pt")
"""What an archive may have at its top: TensorFlow's or PyTorch's weights, code, metadata."""
_BLOCK_BYTES = 1024 * 1024


def unpack(archive: Path, folder: Path) -> None:
    """Extract the archive. Raise ValueError if it holds more than a model: every byte that serves
    must be one that was measured.
    """
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            parts = [part for part in member.name.split("/") if part != "."]
            if parts and (parts[0] not in CONTENT or "__pycache__" in parts):
                raise ValueError(f"{member.name!r} does not belong into a model")
            if not (member.isfile() or member.isdir()) or ".." in parts:
                raise ValueError(f"{member.name!r} is neither a file nor a folder of the archive")
        tar.extractall(folder)  # noqa: S202 - every member was looked at above


def content_sha256(folder: Path) -> str:
    """Return the digest of a model: of its weights, metadata and code, wherever it is unpacked.

    It is the sha256 of what `sha256sum` prints for the files, sorted by path.
    """
    files = [
        file
        for name in CONTENT
        for file in (folder / name, *(folder / name).rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    ]
    listing = hashlib.sha256()
    for path, file in sorted((file.relative_to(folder).as_posix(), file) for file in files):
        listing.update(f"{file_sha256(file)}  {path}\n".encode())
    return listing.hexdigest()


def file_sha256(file: Path) -> str:
    """Return the sha256 of a file of any size."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
