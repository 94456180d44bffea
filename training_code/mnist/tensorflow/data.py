"""Reads the original MNIST files (idx format, unpacked), checks them, and cuts them into batches.

Format: http://yann.lecun.com/exdb/mnist (big-endian magic number, one 32-bit size per dimension,
then the bytes).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from plan import Plan

IMAGES_MAGIC = 0x00000803
LABELS_MAGIC = 0x00000801
IMAGES_HEADER_BYTES = 16
LABELS_HEADER_BYTES = 8
SIDE = 28
CLASSES = 10

TRAIN = "train"
TEST = "t10k"


@dataclass(frozen=True)
class Digits:
    """Images as uint8 (N, 28, 28) and labels as int64 (N,)."""

    images: np.ndarray[Any, np.dtype[np.uint8]]
    labels: np.ndarray[Any, np.dtype[np.int64]]

    def __len__(self) -> int:
        return len(self.labels)

    def share(self, rank: int, ranks: int) -> Digits:
        """Return every `ranks`-th digit from `rank` on: the part that one rank tests."""
        return Digits(self.images[rank::ranks], self.labels[rank::ranks])


def batches(
    digits: Digits, plan: Plan, epoch: int, done: int, rank: int = 0, ranks: int = 1
) -> tf.data.Dataset:
    """Return this rank's slice of each global batch after the first `done`.

    Each is cut into one batch per replica: uint8 (B, 28, 28), int64 (B,). The order depends on seed
    and epoch only, so any number of ranks together sees the same global batches.
    """
    order = np.random.default_rng([plan.seed, epoch]).permutation(len(digits))[
        : plan.steps_per_epoch * plan.global_batch
    ]
    indices = order.reshape(plan.steps_per_epoch, ranks, -1)[done:, rank].reshape(
        -1, plan.replica_batch
    )
    return tf.data.Dataset.from_tensor_slices((digits.images[indices], digits.labels[indices]))


def slices(
    digits: Digits, plan: Plan, epoch: int, done: int
) -> Callable[[tf.distribute.InputContext], tf.data.Dataset]:
    """Return `batches` as the function that tf.distribute calls with the process's number."""
    return lambda context: batches(
        digits, plan, epoch, done, context.input_pipeline_id, context.num_input_pipelines
    )


def shuffled_records(folder: Path, plan: Plan) -> tf.data.Dataset:
    """Return global batches without end: uint8 (B, 28, 28), int64 (B,).

    Each process that iterates reads them in an order of its own.
    """
    images_file, labels_file = files(folder, TRAIN)
    images = tf.data.FixedLengthRecordDataset(str(images_file), SIDE * SIDE, IMAGES_HEADER_BYTES)
    labels = tf.data.FixedLengthRecordDataset(str(labels_file), 1, LABELS_HEADER_BYTES)
    pairs = (
        tf.data.Dataset.zip((images, labels))
        .shuffle(plan.images)
        .repeat()
        .batch(plan.replica_batch)
    )
    return pairs.map(_decode).prefetch(1)


def _decode(images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    pixels = tf.reshape(tf.io.decode_raw(images, tf.uint8), (-1, SIDE, SIDE))
    return pixels, tf.cast(tf.io.decode_raw(labels, tf.uint8)[:, 0], tf.int64)


def read_train(folder: Path) -> Digits:
    """Read train-images-idx3-ubyte and train-labels-idx1-ubyte.

    Raise ValueError with the file and what is wrong.
    """
    return _read(folder, TRAIN)


def read_test(folder: Path) -> Digits:
    """Read t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte.

    Raise ValueError with the file and what is wrong.
    """
    return _read(folder, TEST)


def files(folder: Path, prefix: str) -> tuple[Path, Path]:
    """Return the paths of the images and the labels of a set; `prefix` is TRAIN or TEST."""
    return folder / f"{prefix}-images-idx3-ubyte", folder / f"{prefix}-labels-idx1-ubyte"


def _read(folder: Path, prefix: str) -> Digits:
    images_file, labels_file = files(folder, prefix)
    images = read_idx(images_file, IMAGES_MAGIC, dimensions=3)
    labels = read_idx(labels_file, LABELS_MAGIC, dimensions=1)
    if images.shape[1:] != (SIDE, SIDE):
        raise ValueError(
            f"{folder}: images are {images.shape[1]}x{images.shape[2]} pixels, not {SIDE}x{SIDE}"
        )
    if len(images) != len(labels):
        raise ValueError(f"{folder}: {len(images)} images but {len(labels)} labels")
    if int(labels.max()) >= CLASSES:
        raise ValueError(f"{folder}: label {int(labels.max())} is outside 0..{CLASSES - 1}")
    return Digits(images, labels.astype(np.int64))


def read_idx(path: Path, magic: int, *, dimensions: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Read one idx file of unsigned bytes.

    Raise ValueError if it is missing, empty, truncated or another kind of file.
    """
    if not path.is_file():
        raise ValueError(f"{path} does not exist; the folder holds {_names(path.parent)}")
    content = path.read_bytes()
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
    return np.frombuffer(content, dtype=np.uint8, offset=header_bytes).reshape(shape)


def _hint(content: bytes) -> str:
    return " (it is gzip-compressed: unpack it first)" if content[:2] == b"\x1f\x8b" else ""


def _names(folder: Path) -> str:
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    return ", ".join(names) or "nothing"
