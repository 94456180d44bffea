"""The progress of a training, from the lines that the script prints.

The workload's file says where its numbers stand; CloudWatch's metric definitions read the same
lines. A line may also say how far the training is: `epoch=1 step=120/470`, or `step=120/470` where
epochs do not count, `world_size=2`, `elapsed_s=4.1`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # it needs a package that the function that keeps pages does not have
    from shoal.settings.sections.evaluation import Metric

_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*(?:e[-+]?[0-9]+)?|nan|inf)"
_COUNT = r"(\d{1,12})(?!\d)"
"""More digits count nothing, and may be more than a float holds."""
_EPOCH = re.compile(rf"\bepoch={_COUNT}(?: step={_COUNT}/{_COUNT})?")
_STEP = re.compile(rf"\bstep={_COUNT}/{_COUNT}")
_WORLD_SIZE = re.compile(rf"\bworld_size={_COUNT}")
_ELAPSED = re.compile(rf"\belapsed_s=({_NUMBER})")
_PARTS = re.compile(r"(?:^|[\s:>])processes=(?P<processes>\d+)(?P<parts>(?: [a-z_]+=\d+)*)$")
MAX_LINE = 4096
"""Characters of a line in which a cause is looked for."""
MAX_MATCHED = 1000
"""Those that expressions get: `shoal check` tries them on lines of that length."""


@dataclass(frozen=True)
class Parts:
    """Who trains, as the job reports it: the number of processes, and how many of each kind."""

    processes: int
    parts: tuple[tuple[str, int], ...] = ()
    """Such as (("chiefs", 1), ("workers", 2)); empty if the job does not say."""

    def __str__(self) -> str:
        """Return words such as `2 ranks`, `2 replicas in one process`, `1 chief, 2 workers`."""
        if self.processes == 1 and all(count == 1 for _, count in self.parts):
            return "1 process"
        processes = "one process" if self.processes == 1 else f"{self.processes} processes"
        names = ", ".join(f"{count} {_words(name, count)}" for name, count in self.parts)
        if sum(count for _, count in self.parts) == self.processes:
            return names
        return f"{names} in {processes}" if names else processes


@dataclass(frozen=True)
class Position:
    """How far a training is: step is 0 at the end of an epoch, epoch where none is counted."""

    epoch: int
    step: int = 0
    steps: int = 0

    @property
    def steps_done(self) -> int:
        """Return the steps since the start of training."""
        return max(self.epoch - 1, 0) * self.steps + self.step

    def steps_at(self, per_epoch: int) -> int:
        """Return the steps done; at the end of an epoch, those of the epochs until then."""
        return self.steps_done if self.steps else self.epoch * per_epoch

    def __str__(self) -> str:
        """Return `epoch 1 step 120/470`, without what is not counted."""
        step = f"step {self.step}/{self.steps}" if self.steps else ""
        return f"epoch {self.epoch} {step}".rstrip() if self.epoch else step


@dataclass(frozen=True)
class Reading:
    """One number of the workload's own."""

    name: str
    """As in the workload's file: `train:loss`."""
    value: float
    unit: str = ""

    def __str__(self) -> str:
        return f"{self.name} {number_text(self.value, self.unit)}"


@dataclass(frozen=True)
class Progress:
    """A line of rank 0 with at least one number; None is what it does not say."""

    readings: tuple[Reading, ...]
    position: Position | None = None
    elapsed_s: float | None = None
    world_size: int | None = None
    """How many compute at once: ranks, replicas or workers."""


Metrics = Progress | Parts


def progress_metrics(metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    """Return those by which a training is followed; all of them where none is marked."""
    marked = {name: metric for name, metric in metrics.items() if metric.progress}
    return marked or dict(metrics)


def number_text(value: float, unit: str = "") -> str:
    """Return a number with its unit, as in `3,457 rows/s` or `0.1234`."""
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{text} {unit}".rstrip()


def trained_text(
    readings: tuple[Reading, ...], parts: Parts | None, progress: Progress | None = None
) -> str:
    """Return the numbers, who trains, and for how long, as far as that is known."""
    text = ", ".join(map(str, readings))
    if parts:
        text += f" on {parts}"
    elif progress and progress.world_size:
        text += f" on a world of {progress.world_size}"
    if progress and progress.elapsed_s is not None:
        text += f", {progress.elapsed_s:.0f} s"
    return text


def _words(name: str, count: int) -> str:
    words = name.replace("_", " ")
    return words.removesuffix("s") if count == 1 else words


def parse(line: str, metrics: Mapping[str, Metric]) -> Metrics | None:
    """Return what one log line says of a training, or None if it has none of these `metrics`."""
    line = line[:MAX_MATCHED]
    if readings := tuple(_readings(line, metrics)):
        elapsed, world = (pattern.search(line) for pattern in (_ELAPSED, _WORLD_SIZE))
        return Progress(
            readings,
            _position(line),
            float(elapsed[1]) if elapsed else None,
            int(world[1]) if world else None,
        )
    if match := _PARTS.search(line):
        pairs = (part.split("=") for part in match["parts"].split())
        return Parts(int(match["processes"]), tuple((name, int(count)) for name, count in pairs))
    return None


def _position(line: str) -> Position | None:
    if match := _EPOCH.search(line):
        return Position(*(int(group or 0) for group in match.groups()))
    match = _STEP.search(line)
    return Position(0, *map(int, match.groups())) if match else None


def _readings(line: str, metrics: Mapping[str, Metric]) -> Iterator[Reading]:
    for name, metric in metrics.items():
        match = re.search(metric.regex, line)
        try:
            value = float(match[1]) if match and match[1] else None
        except ValueError:  # what the expression finds need not be a number
            continue
        if value is not None and math.isfinite(value):
            yield Reading(name, value, metric.unit)
