"""The network and the data of pytorch/examples' `mnist/main.py`, for the peers that use PyTorch.

Source: https://github.com/pytorch/examples/blob/main/mnist/main.py (BSD 3-clause), rewritten.
Dropout is left out, in every contender alike. torchvision's dataset and transforms are rewritten
with Pillow, because torchvision does not load here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from PIL import Image
from setting import read
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset

MEAN, STD = 0.1307, 0.3081


class Net(nn.Module):  # type: ignore[misc, unused-ignore] # untyped where torch is not installed
    """conv 32 - conv 64 - pool - fc 128 - fc 10: 1.2 million weights."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, 1)
        self.conv2 = nn.Conv2d(32, 64, 3, 1)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return log-probabilities (N, 10) of images (N, 1, 28, 28)."""
        x = functional.relu(self.conv1(x))
        x = functional.relu(self.conv2(x))
        x = functional.max_pool2d(x, 2)
        x = functional.relu(self.fc1(torch.flatten(x, 1)))
        return functional.log_softmax(self.fc2(x), dim=1)


class Mnist(Dataset[tuple[torch.Tensor, int]]):  # type: ignore[misc, unused-ignore]
    """One image at a time through ToTensor and Normalize, as torchvision's MNIST with the example's
    transforms.
    """

    def __init__(self, folder: Path, prefix: str) -> None:
        pixels, labels, count = read(folder, prefix)
        self.data = torch.frombuffer(bytearray(pixels), dtype=torch.uint8).reshape(count, 28, 28)
        self.targets = torch.frombuffer(bytearray(labels), dtype=torch.uint8).long()

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = Image.fromarray(self.data[index].numpy(), mode="L")
        values = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
        shaped = values.view(image.size[1], image.size[0], 1).permute(2, 0, 1).contiguous()
        tensor = shaped.to(torch.float32).div(255)
        tensor.sub_(torch.tensor(MEAN).view(-1, 1, 1)).div_(torch.tensor(STD).view(-1, 1, 1))
        return tensor, int(self.targets[index])


def endless(loader: Any) -> Any:
    """Yield the loader's batches, epoch after epoch."""
    while True:
        yield from loader


def accuracy(network: nn.Module, folder: Path, count: int) -> float:
    """Return the share of the first `count` test images that the network knows.

    As one tensor, because testing is not compared.
    """
    test = Mnist(folder, "t10k")
    network.eval()
    right = 0
    with torch.inference_mode():
        for images, labels in zip(
            test.data[:count].split(500), test.targets[:count].split(500), strict=True
        ):
            pixels = images.unsqueeze(1).float().div(255).sub(MEAN).div(STD)
            right += int((network(pixels).argmax(1) == labels).sum())
    return right / count
