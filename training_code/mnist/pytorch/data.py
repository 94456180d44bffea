"""The digits as tensors."""

from pathlib import Path

import torch
from common.mnist_files import SIDE, read_digits
from torch.utils.data import TensorDataset


def read(folder: Path, prefix: str, device: torch.device) -> TensorDataset:
    """Return images as uint8 (N, 28, 28) and labels as int64 (N,), from the files with the prefix
    train, or t10k for the test. Raise ValueError with the file and what is wrong.

    All of them fit on one device, which spares a loader and its copies.
    """
    pixels, labels = (
        torch.frombuffer(each, dtype=torch.uint8) for each in read_digits(folder, prefix)
    )
    images = pixels.reshape(-1, SIDE, SIDE)
    return TensorDataset(images.to(device), labels.long().to(device))
