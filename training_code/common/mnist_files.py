"""Reads the original MNIST files (idx format, unpacked), and checks them, for every framework.

Format: http://yann.lecun.com/exdb/mnist (big-endian magic number, one 32-bit size per dimension,
then the bytes).
"""

from __future__ import annotations

import math
import struct
from pathlib import Path

IMAGES_MAGIC, LABELS_MAGIC = 0x00000803, 0x00000801
SIDE, CLASSES = 28, 10


def read_digits(folder: Path, prefix: str) -> tuple[memoryview, memoryview]:
    """Return the pixels (N * 28 * 28) and labels (N) of PREFIX-images-idx3-ubyte and
    PREFIX-labels-idx1-ubyte, as writable bytes. The prefix is train, or t10k for the test.

    Raise ValueError with the file and what is wrong.
    """
    shape, pixels = _read_idx(folder / f"{prefix}-images-idx3-ubyte", IMAGES_MAGIC, dimensions=3)
    (count,), labels = _read_idx(folder / f"{prefix}-labels-idx1-ubyte", LABELS_MAGIC, dimensions=1)
    if shape[1:] != (SIDE, SIDE):
        size = "x".join(map(str, shape[1:]))
        raise ValueError(f"{folder}: images are {size} pixels, not {SIDE}x{SIDE}")
    if shape[0] != count:
        raise ValueError(f"{folder}: {shape[0]} images but {count} labels")
    if max(labels) >= CLASSES:
        raise ValueError(f"{folder}: label {max(labels)} is outside 0..{CLASSES - 1}")
    return pixels, labels


def _read_idx(path: Path, magic: int, *, dimensions: int) -> tuple[tuple[int, ...], memoryview]:
    """Return the shape and the bytes of a file.

    Raise ValueError if it is missing, empty, truncated or another kind of file.
    """
    if not path.is_file():
        names = sorted(entry.name for entry in path.parent.glob("*"))
        raise ValueError(f"{path} does not exist; the folder holds {', '.join(names) or 'nothing'}")
    content, start = bytearray(path.read_bytes()), 4 * (1 + dimensions)
    if len(content) < start:
        problem = "truncated" if content else "empty"
        raise ValueError(f"{path} is {problem}: {len(content)} bytes, the header alone has {start}")
    actual, *shape = struct.unpack(f">{1 + dimensions}I", content[:start])
    if actual != magic:
        hint = " (it is gzip-compressed: unpack it first)" if content[:2] == b"\x1f\x8b" else ""
        raise ValueError(
            f"{path} is not the expected idx file: magic number 0x{actual:08x}, not"
            f" 0x{magic:08x}{hint}"
        )
    size, expected = len(content) - start, math.prod(shape)
    if size != expected:
        problem = "truncated" if size < expected else "too long"
        raise ValueError(f"{path} is {problem}: {size} bytes for shape {tuple(shape)}")
    if not size:
        raise ValueError(f"{path} is empty: it holds 0 entries")
    return tuple(shape), memoryview(content)[start:]
