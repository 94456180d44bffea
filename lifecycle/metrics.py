"""Training metrics from the lines that the training script prints, the same lines CloudWatch's metric definitions read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*(?:e[-+]?[0-9]+)?|nan|inf)"
_PROGRESS = re.compile(
    rf"epoch=(?P<epoch>\d+) step=(?P<step>\d+)/(?P<steps>\d+) train_loss=(?P<loss>{_NUMBER}) learning_rate={_NUMBER}"
    rf" images_per_second=(?P<rate>{_NUMBER}) elapsed_s=(?P<elapsed>{_NUMBER}) world_size=(?P<world>\d+)"
)
_EPOCH = re.compile(
    rf"epoch=(?P<epoch>\d+) test_loss=(?P<loss>{_NUMBER}) test_accuracy=(?P<accuracy>{_NUMBER}) elapsed_s=(?P<elapsed>{_NUMBER})"
)


@dataclass(frozen=True)
class Progress:
    """Rank 0's line every few steps."""

    epoch: int
    step: int
    steps: int
    """Steps per epoch."""
    train_loss: float
    images_per_second: float
    """Of all ranks together."""
    elapsed_s: float
    world_size: int

    @property
    def steps_done(self) -> float:
        """Steps since the start of training; the training curve's x axis."""
        return (self.epoch - 1) * self.steps + self.step


@dataclass(frozen=True)
class Epoch:
    """Rank 0's line at the end of an epoch."""

    epoch: int
    test_loss: float
    test_accuracy: float
    elapsed_s: float


def parse(line: str) -> Progress | Epoch | None:
    """The metrics in one log line, or None if it has none."""
    if found := _PROGRESS.search(line):
        return Progress(
            epoch=int(found["epoch"]),
            step=int(found["step"]),
            steps=int(found["steps"]),
            train_loss=float(found["loss"]),
            images_per_second=float(found["rate"]),
            elapsed_s=float(found["elapsed"]),
            world_size=int(found["world"]),
        )
    if found := _EPOCH.search(line):
        return Epoch(int(found["epoch"]), float(found["loss"]), float(found["accuracy"]), float(found["elapsed"]))
    return None


def parse_all(lines: Iterable[str]) -> tuple[Progress | Epoch, ...]:
    """The metrics of a whole log, in its order."""
    return tuple(metrics for line in lines if (metrics := parse(line)) is not None)
