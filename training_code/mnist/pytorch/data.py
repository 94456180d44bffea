"""Reads the original MNIST files (idx format, unpacked) into two uint8 tensors, and checks them.

Format: http://yann.lecun.com/exdb/mnist (big-endian magic number, one 32-bit size per dimension,
then the bytes).
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path

import torch

IMAGES_MAGIC = 0x00000803
LABELS_MAGIC = 0x00000801
SIDE = 28
CLASSES = 10


@dataclass(frozen=True)
class Digits:
    """Images as uint8 (N, 28, 28) and labels as int64 (N,), on one device."""

    images: torch.Tensor
    labels: torch.Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device) -> Digits:
        """Return the same digits on `device`.

        All of them fit there, which spares a loader and its copies.
        """
        return Digits(self.images.to(device), self.labels.to(device))


def read_train(folder: Path) -> Digits:
    """Read train-images-idx3-ubyte and train-labels-idx1-ubyte.

    Raise ValueError with the file and what is wrong.
    """
    return _read(folder, "train")


def read_test(folder: Path) -> Digits:
    """Read t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte.

    Raise ValueError with the file and what is wrong.
    """
    return _read(folder, "t10k")


def _read(folder: Path, prefix: str) -> Digits:
    images = read_idx(folder / f"{prefix}-images-idx3-ubyte", IMAGES_MAGIC, dimensions=3)
    labels = read_idx(folder / f"{prefix}-labels-idx1-ubyte", LABELS_MAGIC, dimensions=1)
    if images.shape[1:] != (SIDE, SIDE):
        raise ValueError(
            f"{folder}: images are {images.shape[1]}x{images.shape[2]} pixels, not {SIDE}x{SIDE}"
        )
    if len(images) != len(labels):
        raise ValueError(f"{folder}: {len(images)} images but {len(labels)} labels")
    if int(labels.max()) >= CLASSES:
        raise ValueError(f"{folder}: label {int(labels.max())} is outside 0..{CLASSES - 1}")
    return Digits(images, labels.long())


def read_idx(path: Path, magic: int, *, dimensions: int) -> torch.Tensor:
    """Read one idx file of unsigned bytes as a uint8 tensor.

    Raise ValueError if it is missing, empty, truncated or another kind of file.
    """
    if not path.is_file():
        raise ValueError(f"{path} does not exist; the folder holds {_names(path.parent)}")
    content = bytearray(path.stat().st_size)
    with path.open("rb") as file:
        file.readinto(content)
    header_bytes = 4 * (1 + dimensions)
    if len(content) < header_bytes:
        raise ValueError(
            f"{path} is {'empty' if not content else 'truncated'}: {len(content)} bytes, the header"
            f" alone has {header_bytes}"
        )
    actual_magic, *shape = struct.unpack(f">{1 + dimensions}I", content[:header_bytes])
    if actual_magic != magic:
        raise ValueError(
            f"{path} is not the expected idx file: magic number 0x{actual_magic:08x}, not"
            f" 0x{magic:08x}{_hint(content)}"
        )
    if len(content) - header_bytes != math.prod(shape):
        problem = "truncated" if len(content) - header_bytes < math.prod(shape) else "too long"
        raise ValueError(
            f"{path} is {problem}: {len(content) - header_bytes} bytes for shape {tuple(shape)}"
        )
    if not math.prod(shape):
        raise ValueError(f"{path} is empty: it holds 0 entries")
    return torch.frombuffer(content, dtype=torch.uint8, offset=header_bytes).reshape(shape)


def _hint(content: bytearray) -> str:
    return " (it is gzip-compressed: unpack it first)" if content[:2] == b"\x1f\x8b" else ""


def _names(folder: Path) -> str:
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    return ", ".join(names) or "nothing"
