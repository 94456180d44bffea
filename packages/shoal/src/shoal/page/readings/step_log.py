"""A step's log, read once: what a page shows of it, in memory that does not grow with it; and the
curves of a training, each of its numbers, by host and by the rank that printed it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from shoal.aws.logs import LogLine
from shoal.aws.metrics import MAX_LINE, Parts, Position, Progress, parse
from shoal.page.look import time_text
from shoal.page.readings.cause import CauseSearch, rank_of

if TYPE_CHECKING:  # it needs a package that the function that keeps pages does not have
    from shoal.settings.sections.evaluation import Metric

MAX_LINES = 2000
"""Lines that are kept of a log: of a longer one the first and the last half, by their times."""
MAX_HOSTS = 1000
# Nothing in it can match in two ways: time is linear in the length of a line.
_PARTS = re.compile(
    r"milliseconds of a step\b[^:]*: (?P<parts>(?:\w+=\d{1,12}(?:\.\d{1,12})?(?: |$))+)$"
)
MAX_LANES = 1000
MAX_POINTS = 2000
"""Of a lane, while all of them together have at most MAX_POINTS_OF_ALL."""
MAX_POINTS_OF_ALL = 200_000


class _Lane:
    """One number of one rank: all of its points, or every 2nd, 4th, 8th, ... of them.

    Lanes of the same length keep the same points, so that their mean is one at each.
    """

    def __init__(self) -> None:
        self.points: list[tuple[Position | int, float, float]] = []
        self.count = 0
        self._stride = 1

    def add(self, position: Position | None, value: float, seconds: float) -> None:
        self.last = (position or self.count + 1, value, seconds)
        if self.count % self._stride == 0:
            self.points.append(self.last)
        self.count += 1

    def thin(self, limit: int) -> None:
        while len(self.points) > limit:
            del self.points[1::2]
            self._stride *= 2


class Curves:
    """The curves in a log of any length, of which points are left out at even distances."""

    def __init__(self, metrics: Mapping[str, Metric], began: datetime) -> None:
        self._metrics, self._began = metrics, began
        self._lanes: dict[tuple[str, str, int | None], _Lane] = {}
        self._limit, self._per_epoch = MAX_POINTS, 1
        self.lost = 0
        """Values of more lanes than MAX_LANES."""
        self.processes: str | None = None
        """Who trains, in words: as a line says it, or else the size of the world."""

    def add(self, line: LogLine) -> None:
        progress = parse(line.text, self._metrics)
        if isinstance(progress, Parts):
            self.processes = str(progress)
        if not isinstance(progress, Progress):
            return
        if progress.world_size and not self.processes:
            self.processes = f"world size {progress.world_size}"
        if progress.position:
            self._per_epoch = max(self._per_epoch, progress.position.steps)
        rank, seconds = rank_of(line.text), round((line.at - self._began).total_seconds(), 3)
        for reading in progress.readings:
            if lane := self._lane((reading.name, line.host, rank)):
                lane.add(progress.position, reading.value, seconds)
                lane.thin(self._limit)
            else:
                self.lost += 1

    def _lane(self, key: tuple[str, str, int | None]) -> _Lane | None:
        if key not in self._lanes and len(self._lanes) < MAX_LANES:
            self._lanes[key] = _Lane()
            self._limit = min(MAX_POINTS, MAX_POINTS_OF_ALL // len(self._lanes))
            for lane in self._lanes.values():
                lane.thin(self._limit)
        return self._lanes.get(key)

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the curves in run.json's form, but for the step: points are (step, value, seconds
        since `began`), the last one among them.

        The end of an epoch is its last step; without steps, epochs or readings count.
        """
        for (name, host, rank), lane in self._lanes.items():
            points = lane.points if lane.points[-1] is lane.last else [*lane.points, lane.last]
            yield {
                "name": name,
                "host": host or None,
                "rank": rank,
                "unit": self._metrics[name].unit,
                "direction": str(self._metrics[name].direction or "") or None,
                "cut": lane.count - len(points),
                "points": [
                    [float(at if isinstance(at, int) else at.steps_at(self._per_epoch)), *rest]
                    for at, *rest in points
                ],
            }


class StepLog:
    """What a page shows of a log whose lines are added one by one."""

    def __init__(
        self,
        began: datetime,
        metrics: Mapping[str, Metric] | None = None,
        *,
        causes: CauseSearch | None = None,
    ) -> None:
        """`metrics` are a training's; `causes` of a step that has failed."""
        self._curves = Curves(metrics, began) if metrics else None
        self.causes = causes
        self._count = 0
        self._lines: list[LogLine] = []
        self._parts: dict[str, str] = {}
        self.tracked_at = ""  # where a line says that MLflow has the training

    def add(self, line: LogLine) -> None:
        if len(line.text) > MAX_LINE:
            line = replace(line, text=line.text[:MAX_LINE])
        self._count += 1
        self._lines.append(line)
        if len(self._lines) > 2 * MAX_LINES:
            self._lines = self._ends()
        if self._curves:
            self._curves.add(line)
        if self.causes:
            self.causes.add(line)
        if "/#/experiments/" in line.text:
            places = (word for word in line.text.split() if "/#/experiments/" in word)
            self.tracked_at = next((each for each in places if "/runs/" in each), self.tracked_at)
        match = _PARTS.search(line.text)
        if match and (line.host in self._parts or len(self._parts) < MAX_HOSTS):
            self._parts[line.host] = match["parts"]

    def _ends(self) -> list[LogLine]:
        """Return the lines that are kept so far; what is left out comes back into neither half."""
        in_order = sorted(self._lines, key=lambda line: line.at)
        half = MAX_LINES // 2
        return in_order if len(in_order) <= MAX_LINES else in_order[:half] + in_order[-half:]

    def record(self) -> dict[str, Any]:
        """Return the lines in run.json's form, and how many are `cut`."""
        lines = self._ends()
        return {
            "cut": self._count - len(lines),
            "lines": [
                [time_text(each.at), each.host or each.stream, rank_of(each.text), each.text]
                for each in lines
            ],
        }

    def curves(self) -> Iterator[dict[str, Any]]:
        """Yield the curves of a training in run.json's form, but for the step."""
        return self._curves.records() if self._curves else iter(())

    @property
    def values_lost(self) -> int:
        """Return how many values are of more lanes than curves have."""
        return self._curves.lost if self._curves else 0

    @property
    def processes(self) -> str | None:
        """Return who trains, such as `2 ranks`; None where no line says it."""
        return self._curves.processes if self._curves else None

    def parts(self) -> Iterator[dict[str, Any]]:
        """Yield where a step's time went, as a training printed it: the last such line of each
        host.
        """
        for host, parts in self._parts.items():
            pairs = (part.split("=") for part in parts.split())
            times = {part: float(ms) for part, ms in pairs if part != "whole"}
            yield {"host": host or None, "milliseconds": times}

    def __bool__(self) -> bool:
        return self._count > 0
