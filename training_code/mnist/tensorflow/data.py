"""The digits of MNIST, and their batches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from common.mnist_files import SIDE, read_digits
from run import Run


@dataclass(frozen=True)
class Digits:
    """Images as uint8 (N, 28, 28) and labels as int64 (N,)."""

    images: np.ndarray[Any, np.dtype[np.uint8]]
    labels: np.ndarray[Any, np.dtype[np.int64]]

    @classmethod
    def read(cls, folder: Path, prefix: str) -> Digits:
        """Read the digits of train or t10k. Raise ValueError with the file and what is wrong."""
        images, labels = (np.frombuffer(each, np.uint8) for each in read_digits(folder, prefix))
        return cls(images.reshape(-1, SIDE, SIDE), labels.astype(np.int64))

    def __len__(self) -> int:
        return len(self.labels)

    def share(self, rank: int, ranks: int) -> Digits:
        """Return every `ranks`-th digit from `rank` on: the part that one rank tests."""
        return Digits(self.images[rank::ranks], self.labels[rank::ranks])


def batches(
    digits: Digits, run: Run, epoch: int, done: int, rank: int, ranks: int
) -> tf.data.Dataset:
    """Return this rank's slice of each global batch after the first `done`.

    Each is cut into one batch per replica: uint8 (B, 28, 28), int64 (B,). The order depends on seed
    and epoch only, so any number of ranks together sees the same global batches.
    """
    order = np.random.default_rng([run.options.seed, epoch]).permutation(len(digits))
    whole = order[: run.steps_per_epoch * run.options.batch_size]
    mine = whole.reshape(run.steps_per_epoch, ranks, -1)[done:, rank]
    indices = mine.reshape(-1, run.replica_batch)
    return tf.data.Dataset.from_tensor_slices((digits.images[indices], digits.labels[indices]))


def shuffled_records(run: Run) -> tf.data.Dataset:
    """Return training batches without end: uint8 (B, 28, 28), int64 (B,).

    Each process that iterates reads the files itself, in an order of its own.
    """
    images, labels = (
        tf.data.FixedLengthRecordDataset(str(run.options.train_dir / f"train-{name}"), size, header)
        for name, size, header in (
            ("images-idx3-ubyte", SIDE * SIDE, 16),
            ("labels-idx1-ubyte", 1, 8),
        )
    )
    pairs = tf.data.Dataset.zip((images, labels)).shuffle(run.identity["images"]).repeat()
    return pairs.batch(run.replica_batch).map(_decode).prefetch(1)


def _decode(images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    pixels = tf.reshape(tf.io.decode_raw(images, tf.uint8), (-1, SIDE, SIDE))
    return pixels, tf.cast(tf.io.decode_raw(labels, tf.uint8)[:, 0], tf.int64)
