"""The network and its loss: this file is yours. Change `table.py` with it."""

from __future__ import annotations

import torch
from table import CLASSES, FEATURES
from torch import nn


class Network(nn.Module):  # type: ignore[misc, unused-ignore] # untyped where torch is not installed
    """Rows float32 (N, features) to logits float32 (N, classes); it keeps the scale of the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(len(FEATURES), 32), nn.ReLU(), nn.Linear(32, len(CLASSES))
        )
        self.register_buffer("rows_mean", torch.zeros(len(FEATURES)))
        self.register_buffer("rows_std", torch.ones(len(FEATURES)))

    def fit_scale(self, rows: torch.Tensor, targets: torch.Tensor) -> None:
        """Take mean and standard deviation from all training rows."""
        self.rows_mean, self.rows_std = rows.mean(0), _std(rows)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return one logit a class and row."""
        return self.layers((rows - self.rows_mean) / self.rows_std)  # type: ignore[no-any-return, unused-ignore]


def _std(values: torch.Tensor) -> torch.Tensor:
    """Return the standard deviation of each column, 1 of a constant one, or of a single row."""
    std = values.std(0)
    return std.masked_fill(~(std > 0), 1)


def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of a batch: logits (N, classes), classes int64 (N)."""
    return nn.functional.cross_entropy(outputs, targets)  # type: ignore[no-any-return, unused-ignore]
