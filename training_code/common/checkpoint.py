"""A checkpoint in one file: the state of a run between two steps.

Rank 0 writes it, whole or not at all, to the folder that SageMaker copies to and from S3
(/opt/ml/checkpoints). Every rank reads it back exactly.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from common.options import require_same
from common.served import UNREADABLE

FILE = "checkpoint.pt"


def write(
    folder: Path,
    settings: Mapping[str, Any],
    done: int,
    network: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
) -> None:
    """Replace the checkpoint after `done` steps.

    `settings` are those that a run that resumes must share; data order and learning rate follow
    from them and the steps.
    """
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        "settings": dict(settings),
        "done": done,
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


def settings_of(folder: Path) -> dict[str, Any]:
    """Return the settings of the run that wrote the checkpoint in `folder`.

    Return none where there is no checkpoint, or none that can be read: `read` says so.
    """
    try:
        return dict(torch.load(folder / FILE, map_location="cpu", weights_only=True)["settings"])
    except UNREADABLE:
        return {}


def read(
    folder: Path,
    settings: Mapping[str, Any],
    network: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    device: torch.device,
) -> int:
    """Restore network, optimizer and random state, and return the steps done: 0 without a
    checkpoint.

    Raise ValueError if it cannot be read, is of another network, or its run had other settings.
    """
    path = folder / FILE
    if not path.is_file():
        return 0
    try:
        with zipfile.ZipFile(path) as archive:
            if part := archive.testzip():  # torch.load compares no checksums
                raise ValueError(f"{part} has other bytes than when it was written")
        state = torch.load(path, map_location=device, weights_only=True)
        done, saved = int(state["done"]), dict(state["settings"])
        if saved == settings:
            network.load_state_dict(state["network"])
            # Not resumed: how a step is launched. The rate of a step that was a graph is a tensor.
            for saved_group, group in zip(
                state["optimizer"]["param_groups"], optimizer.param_groups, strict=True
            ):
                saved_group |= {name: group[name] for name in group.keys() - {"params"}}
            optimizer.load_state_dict(state["optimizer"])
            torch.set_rng_state(state["rng"].cpu())
    # a RuntimeError, and no fault of the file; PyTorch has it since 1.13
    except getattr(torch.cuda, "OutOfMemoryError", ()):
        raise
    except (*UNREADABLE, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} cannot be read, remove it to start again: {error!r}") from error
    require_same(path, saved, settings)
    return done
