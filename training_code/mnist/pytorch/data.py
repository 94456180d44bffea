"""The digits as tensors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from common.mnist_files import SIDE, read_digits


@dataclass(frozen=True)
class Digits:
    """Images as uint8 (N, 28, 28) and labels as int64 (N,), on one device.

    All of them fit there, which spares a loader and its copies.
    """

    images: torch.Tensor
    labels: torch.Tensor

    @classmethod
    def read(cls, folder: Path, prefix: str) -> Digits:
        """Read the files with the prefix train, or t10k for the test.

        Raise ValueError with the file and what is wrong.
        """
        pixels, labels = (
            torch.frombuffer(each, dtype=torch.uint8) for each in read_digits(folder, prefix)
        )
        return cls(pixels.reshape(-1, SIDE, SIDE), labels.long())

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device) -> Digits:
        """Return the same digits on `device`."""
        return Digits(self.images.to(device), self.labels.to(device))
