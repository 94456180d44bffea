"""The network, its preprocessing and its file format, for training, evaluation and inference.

It turns uint8 images (N, 28, 28) into logits or probabilities (N, 10). A saved model is a folder
with `model.pt` (the weights) and `model.json` (where they come from).
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from common.archive import METADATA_FILE, identity_of
from common.served import UNREADABLE, complete_model
from torch import nn
from torch.nn import functional

PIXEL_MEAN, PIXEL_STD = 0.1307, 0.3081
"""Of MNIST's training pixels, scaled to 0..1."""
NETWORK_VERSION = 2
"""Grows when weights that were saved before would mean something else: since 2, dense1 reads the
channels of a pixel side by side.
"""
WEIGHTS_FILE = "model.pt"
SERVED_FILES = ("inference.py", "model.py")


class DigitNet(nn.Module):  # type: ignore[misc, unused-ignore] # untyped where torch is not installed
    """Two convolutions and two dense layers, 109,000 weights: 99 % on MNIST in 1.1 epochs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, kernel_size=5, stride=2)
        self.conv2 = nn.Conv2d(16, 32, kernel_size=3)
        self.dense1 = nn.Linear(32 * 5 * 5, 128)
        self.dense2 = nn.Linear(128, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the logits (N, 10) of prepared images (N, 1, 28, 28)."""
        features = functional.relu(self.conv1(pixels))
        # Pooling before relu gives the same result with a quarter of the work.
        features = functional.relu(functional.max_pool2d(self.conv2(features), 2))
        # In the order in which channels_last stores them: nothing is copied, and the gradients come
        # back in the same order.
        features = functional.relu(self.dense1(features.permute(0, 2, 3, 1).flatten(1)))
        return self.dense2(features)  # type: ignore[no-any-return, unused-ignore]


def new_network(device: torch.device) -> DigitNet:
    """Return a network with fresh weights, in the memory format that suits convolutions."""
    network = DigitNet()
    network.to(device)
    network.to(memory_format=torch.channels_last)
    return network


def prepare(images: torch.Tensor) -> torch.Tensor:
    """Turn uint8 images (N, 28, 28) into the network's input float32 (N, 1, 28, 28)."""
    pixels = images.unsqueeze(1).to(torch.float32, memory_format=torch.channels_last)
    return pixels.div_(255).sub_(PIXEL_MEAN).div_(PIXEL_STD)


@dataclass(frozen=True)
class SavedModel:
    """A model read from its folder, ready to predict."""

    network: nn.Module
    identity: dict[str, Any]
    """The job that trained it, and the digest of its content, as the smoke test compares them."""

    def predict(self, images: torch.Tensor) -> torch.Tensor:
        """Return probabilities float32 (N, 10) of uint8 images (N, 28, 28), on the CPU."""
        device = next(self.network.parameters()).device
        with torch.inference_mode():
            return functional.softmax(self.network(prepare(images.to(device))), dim=1).cpu()


def save(network: nn.Module, metadata: dict[str, Any], folder: Path) -> None:
    """Write weights, metadata and the code that serves them, the weights whole or not at all.

    The weights are written from the CPU, so that any machine can read them. Raise ValueError if
    some are not numbers any more: the last step may have spoilt them, after the last loss.
    """
    state = network.state_dict()
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
    if not all(bool(tensor.isfinite().all()) for tensor in weights.values()):
        raise ValueError(
            "the weights are not finite, no model is saved: try a smaller --learning-rate"
        )
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{WEIGHTS_FILE}.partial"
    torch.save(weights, partial)
    # SageMaker may pack the folder of a job that is killed now.
    partial.replace(folder / WEIGHTS_FILE)
    complete_model(folder, metadata, Path(__file__).parent, SERVED_FILES)


def load(folder: Path, device: torch.device) -> SavedModel:
    """Read what `save` wrote. Raise ValueError if the folder holds no model of ours."""
    network = new_network(device)
    try:
        metadata = json.loads((folder / METADATA_FILE).read_text())
        weights = torch.load(folder / WEIGHTS_FILE, map_location=device, weights_only=True)
        version = metadata.get("network_version", 1)
        if version == NETWORK_VERSION:
            network.load_state_dict(weights)
    except FileNotFoundError as error:
        raise ValueError(
            f"{folder} holds no model: {Path(error.filename).name} is missing"
        ) from error
    except UNREADABLE as error:
        raise ValueError(f"{folder} holds a damaged model: {error}") from error
    if version != NETWORK_VERSION:
        raise ValueError(
            f"{folder} holds a model for version {version} of the network, this code has version"
            f" {NETWORK_VERSION}: train it again"
        )
    return SavedModel(network.eval(), identity_of(folder))
