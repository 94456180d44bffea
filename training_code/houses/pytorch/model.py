"""The network, the table that it reads and its file format, for training, evaluation and inference.

A saved model is a folder with `model.pt` (weights and scale) and `model.json` (where they come
from).
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from common.archive import content_sha256
from torch import nn

FEATURES = ("age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6")
"""Years, 1 or 2, body mass index, mean blood pressure, and six numbers of the blood serum."""
TARGET = "progression"
HIDDEN = 8
"""More of them learn the 353 rows by heart."""
WEIGHTS_FILE, METADATA_FILE = "model.pt", "model.json"


class Network(nn.Module):  # type: ignore[misc, unused-ignore] # untyped where torch is not installed
    """Features float32 (N, 10) to targets float32 (N); it keeps the scale of both."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(len(FEATURES), HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1)
        )
        for name, size in (("features", len(FEATURES)), ("targets", 1)):
            self.register_buffer(f"{name}_mean", torch.zeros(size))
            self.register_buffer(f"{name}_std", torch.ones(size))

    def fit_scale(self, features: torch.Tensor, targets: torch.Tensor) -> None:
        """Take mean and standard deviation from all training rows."""
        self.features_mean, self.features_std = features.mean(0), _std(features)
        self.targets_mean, self.targets_std = targets.mean().reshape(1), _std(targets).reshape(1)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the targets."""
        scaled = self.layers((features - self.features_mean) / self.features_std).squeeze(1)
        return scaled * self.targets_std + self.targets_mean  # type: ignore[no-any-return, unused-ignore]


def _std(values: torch.Tensor) -> torch.Tensor:
    """Return the standard deviation of each column, 1 of a constant one."""
    std = values.std(0)
    return std.masked_fill(std == 0, 1)


@dataclass(frozen=True)
class SavedModel:
    """A model read from its folder, ready to predict."""

    network: nn.Module
    training_job_name: str
    content_sha256: str

    def predict(self, features: torch.Tensor) -> torch.Tensor:
        """Return targets float32 (N) of features float32 (N, 10)."""
        with torch.inference_mode():
            return self.network(features)  # type: ignore[no-any-return, unused-ignore]


def read_table(folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Return features float32 (N, 10) and targets float32 (N) of all CSV files in the folder.

    Raise ValueError for a file without the columns, or with something else than numbers.
    """
    rows: list[list[float]] = []
    for file in sorted(folder.glob("*.csv")):
        with file.open(newline="") as stream:
            table = csv.DictReader(stream)
            if missing := {*FEATURES, TARGET} - set(table.fieldnames or ()):
                raise ValueError(f"{file} has no column {', '.join(sorted(missing))}")
            rows += [[float(row[name]) for name in (*FEATURES, TARGET)] for row in table]
    if not rows:
        raise ValueError(f"there are no rows in {folder}")
    table = torch.tensor(rows)
    return table[:, :-1], table[:, -1]


def save(network: nn.Module, training_job_name: str, folder: Path) -> None:
    """Write weights and metadata. Raise ValueError if some weights are not numbers any more."""
    if not all(bool(tensor.isfinite().all()) for tensor in network.state_dict().values()):
        raise ValueError("the weights are not finite: try a smaller --learning-rate")
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(network.state_dict(), folder / WEIGHTS_FILE)
    text = json.dumps({"training_job_name": training_job_name})
    (folder / METADATA_FILE).write_text(f"{text}\n")


def load(folder: Path) -> SavedModel:
    """Read what `save` wrote."""
    metadata: dict[str, Any] = json.loads((folder / METADATA_FILE).read_text())
    network = Network()
    network.load_state_dict(torch.load(folder / WEIGHTS_FILE, weights_only=True))
    return SavedModel(network.eval(), metadata["training_job_name"], content_sha256(folder))
