"""The checkpoint: the state of a run between two steps.

Rank 0 writes it, whole or not at all, to one file in the folder that SageMaker copies to and from
S3 (/opt/ml/checkpoints). Every rank reads it back exactly.
"""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

FILE = "checkpoint.pt"


@dataclass(frozen=True)
class Position:
    """How far a run is: `step` batches of epoch `epoch` (from 1) are done.

    The data order and the learning rate follow from it.
    """

    epoch: int
    step: int


def write(
    folder: Path,
    run: dict[str, Any],
    position: Position,
    network: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
) -> None:
    """Replace the checkpoint in `folder`; `run` has the settings that a resumed run must share."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        "run": run,
        "epoch": position.epoch,
        "step": position.step,
        "network": network.state_dict(),
        "optimizer": optimizer.state_dict(),
        "rng": torch.get_rng_state(),
    }
    partial = folder / f"{FILE}.partial"
    with partial.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(folder / FILE)


def precision(folder: Path) -> str | None:
    """Return the precision of the run that wrote the checkpoint in `folder`.

    Return None where there is none, or none that can be read: `read` says so.
    """
    try:
        state = torch.load(folder / FILE, map_location="cpu", weights_only=True)
        return str(state["run"]["precision"])
    except (RuntimeError, EOFError, OSError, KeyError, TypeError, pickle.UnpicklingError):
        return None


def read(
    folder: Path,
    run: dict[str, Any],
    network: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    device: torch.device,
) -> Position | None:
    """Restore network, optimiser and random state.

    Return None without a checkpoint. Raise ValueError if it cannot be read, or if its run had other
    settings.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        state = torch.load(path, map_location=device, weights_only=True)
    except (RuntimeError, EOFError, OSError, pickle.UnpicklingError) as error:
        raise ValueError(f"{path} cannot be read, remove it to start again: {error}") from error
    _require_same_run(path, state["run"], run)
    network.load_state_dict(state["network"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["rng"].cpu())
    return Position(state["epoch"], state["step"])


def _require_same_run(path: Path, settings: dict[str, Any], expected: dict[str, Any]) -> None:
    differences = [
        f"{key} {settings.get(key)} (now {value})"
        for key, value in expected.items()
        if settings.get(key) != value
    ]
    if differences:
        raise ValueError(
            f"{path} is from a run with other settings: {', '.join(differences)}; use them or"
            " another --checkpoint-dir"
        )
