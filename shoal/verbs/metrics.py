"""Training metrics, parsed from the lines that the training script prints.

CloudWatch's metric definitions read the same lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*(?:e[-+]?[0-9]+)?|nan|inf)"
_PROGRESS = re.compile(
    rf"epoch=(?P<epoch>\d+) step=(?P<step>\d+)/(?P<steps>\d+) train_loss=(?P<loss>{_NUMBER})"
    rf" learning_rate={_NUMBER}"
    rf" images_per_second=(?P<rate>{_NUMBER}) elapsed_s=(?P<elapsed>{_NUMBER})"
    r" world_size=(?P<world>\d+)"
)
_EPOCH = re.compile(
    rf"epoch=(?P<epoch>\d+) test_loss=(?P<loss>{_NUMBER}) test_accuracy=(?P<accuracy>{_NUMBER})"
    rf" elapsed_s=(?P<elapsed>{_NUMBER})"
)
_PARTS = re.compile(r"(?:^|[\s:>])processes=(?P<processes>\d+)(?P<parts>(?: [a-z_]+=\d+)*)$")


@dataclass(frozen=True)
class Parts:
    """Who trains, as the job reports it: the number of processes, and how many of each kind."""

    processes: int
    parts: tuple[tuple[str, int], ...] = ()
    """Such as (("chiefs", 1), ("parameter_servers", 3), ("workers", 2)); empty if the job does not
    say.
    """

    def __str__(self) -> str:
        """Return words such as `2 ranks`, `1 process`, `2 replicas in one process` or `1 chief, 3
        parameter servers, 2 workers`.
        """
        if self.processes == 1 and all(count == 1 for _, count in self.parts):
            return "1 process"
        names = (
            ", ".join(f"{count} {_words(name, count)}" for name, count in self.parts)
            or f"{self.processes} processes"
        )
        if not self.parts or sum(count for _, count in self.parts) == self.processes:
            return names
        return (
            f"{names} in {'one process' if self.processes == 1 else f'{self.processes} processes'}"
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
    """How many compute at once: ranks, replicas or workers."""

    @property
    def steps_done(self) -> float:
        """Return the steps since the start of training: the x axis of the training curve."""
        return (self.epoch - 1) * self.steps + self.step


@dataclass(frozen=True)
class Epoch:
    """Rank 0's line at the end of an epoch."""

    epoch: int
    test_loss: float
    test_accuracy: float
    elapsed_s: float


Metrics = Progress | Epoch | Parts


def _words(name: str, count: int) -> str:
    words = name.replace("_", " ")
    return words.removesuffix("s") if count == 1 else words


def parse(line: str) -> Metrics | None:
    """Return the metrics in one log line, or None if it has none."""
    if match := _PROGRESS.search(line):
        return Progress(
            epoch=int(match["epoch"]),
            step=int(match["step"]),
            steps=int(match["steps"]),
            train_loss=float(match["loss"]),
            images_per_second=float(match["rate"]),
            elapsed_s=float(match["elapsed"]),
            world_size=int(match["world"]),
        )
    if match := _EPOCH.search(line):
        return Epoch(
            int(match["epoch"]),
            float(match["loss"]),
            float(match["accuracy"]),
            float(match["elapsed"]),
        )
    if match := _PARTS.search(line):
        pairs = (part.split("=") for part in match["parts"].split())
        return Parts(int(match["processes"]), tuple((name, int(count)) for name, count in pairs))
    return None
