"""The model's archive, and its digest over every file in it: a vocabulary beside the weights needs
no line here. Keep this file as it is: Seal, smoke test and promotion compare the digest.

It needs the standard library of Python 3.9 alone, as a server may have nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

METADATA_FILE = "model.json"
OF_SERVER = ("MAR-INF", "handler_service.py")
"""What TorchServe's archiver adds in a container (sagemaker-pytorch-inference-toolkit; read)."""
MAX_WHOLE_BYTES, PART_BYTES = 5 * 1024**3, 512 * 1024**2
"""As the step Seal copies what is too large for one piece."""
_BLOCK_BYTES = 1024 * 1024


def unpack(archive: Path, folder: Path) -> None:
    """Extract the archive. Raise ValueError for what the digest would leave out, and for links:
    every byte that serves must be one that was measured.
    """
    with tarfile.open(archive) as tar:
        for member in tar:  # one by one: behind a negative size tarfile may read without end
            parts = [part for part in member.name.split("/") if part not in ("", ".")]
            if {*parts[:1]} & {*OF_SERVER} or "__pycache__" in parts or "\\" in member.name:
                raise ValueError(f"{member.name!r} does not belong into a model: remove it there")
            if member.issparse() or member.size < 0:
                raise ValueError(f"{member.name!r} is a sparse file, or of negative size")
            leads_out = ".." in parts or member.name.startswith("/")
            if leads_out or not (member.isfile() or member.isdir()):
                raise ValueError(f"{member.name!r} is neither a file nor a folder of the archive")
            member.mode = 0o755 if member.isdir() else 0o644  # else files could hide
        tar.extractall(folder)  # noqa: S202 - every member was looked at above


def identity_of(folder: Path) -> dict[str, Any]:
    """Return the job that trained a model, and the digest of its content."""
    job = json.loads((folder / METADATA_FILE).read_text()).get("training_job_name")
    return {"training_job_name": job, "content_sha256": content_sha256(folder)}


def content_sha256(folder: Path, hash_of: Callable[[Path], str] | None = None) -> str:
    """Return the digest of a model: of every file in its folder, wherever it is unpacked.

    It is the sha256 of what `sha256sum` prints for the files, sorted by path. What a server adds
    and Python compiles does not count: `unpack` refuses it. Raise ValueError for a line break.
    """
    hash_of, listing = hash_of or file_sha256, hashlib.sha256()
    files = [(file.relative_to(folder), file) for file in folder.rglob("*") if file.is_file()]
    for path, file in sorted(files, key=lambda pair: pair[0].as_posix()):
        if path.parts[0] not in OF_SERVER and "__pycache__" not in path.parts:
            if "\n" in path.as_posix():
                raise ValueError(f"{path.as_posix()!r} would be two files in the digest")
            listing.update(f"{hash_of(file)}  {path.as_posix()}\n".encode())
    return listing.hexdigest()


def file_sha256(file: Path) -> str:
    """Return the sha256 of a file of any size."""
    return _sha256(file, 0, file.stat().st_size).hex()


def s3_sha256(file: Path) -> str:
    """Return S3's hash of a file: above 5 GB that of its parts, `<base64>-<parts>`."""
    size = file.stat().st_size
    if size <= MAX_WHOLE_BYTES:
        return file_sha256(file)
    hashes = [_sha256(file, at, PART_BYTES) for at in range(0, size, PART_BYTES)]
    return f"{base64.b64encode(hashlib.sha256(b''.join(hashes)).digest()).decode()}-{len(hashes)}"


def _sha256(file: Path, at: int, size_bytes: int) -> bytes:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        stream.seek(at)
        while size_bytes > 0 and (block := stream.read(min(_BLOCK_BYTES, size_bytes))):
            digest.update(block)
            size_bytes -= len(block)
    return digest.digest()
