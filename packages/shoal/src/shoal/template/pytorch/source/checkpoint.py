"""The state of a run between two epochs. SageMaker copies the folder to S3 and, when it starts an
interrupted job again, back.
"""

from __future__ import annotations

from pathlib import Path

import torch

FILE = "checkpoint.pt"


def write(
    folder: Path, done: int, network: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    """Replace the checkpoint after `done` epochs, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {"done": done, "network": network.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state | {"random": torch.get_rng_state()}, folder / f"{FILE}.partial")
    (folder / f"{FILE}.partial").replace(folder / FILE)


def read(folder: Path, network: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Restore what `write` saved, and return the epochs done: 0 without a checkpoint."""
    if not (folder / FILE).is_file():
        return 0
    state = torch.load(folder / FILE, map_location="cpu", weights_only=True)
    network.load_state_dict(state["network"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["random"])
    return int(state["done"])
