"""The network of network.py, as saved_model.py writes it, reads it and asks it."""

from __future__ import annotations

from pathlib import Path

import torch
from network import Network

FILE = "model.pt"


def outputs(model: Network, rows: list[list[float]]) -> list[list[float]]:
    """Return the network's outputs, a list for each row."""
    with torch.inference_mode():
        return model(torch.tensor(rows)).tolist()  # type: ignore[no-any-return, unused-ignore]


def write_to(folder: Path, model: Network) -> None:
    """Write the weights. Raise ValueError if some are not numbers."""
    if not all(bool(tensor.isfinite().all()) for tensor in model.state_dict().values()):
        raise ValueError("the weights are not finite: try a smaller --learning-rate")
    torch.save(model.state_dict(), folder / FILE)


def read_from(folder: Path) -> Network:
    """Return the network, ready to predict."""
    network = Network()
    network.load_state_dict(torch.load(folder / FILE, weights_only=True))
    return network.eval()  # type: ignore[no-any-return, unused-ignore]
