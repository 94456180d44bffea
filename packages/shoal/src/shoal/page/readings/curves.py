"""The curves of a training: each of its numbers, by host and by the rank that printed it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from shoal.aws.logs import LogLine
from shoal.aws.metrics import Parts, Position, Progress, parse
from shoal.page.readings.cause import rank_of

if TYPE_CHECKING:  # it needs a package that the function that keeps pages does not have
    from shoal.settings.sections.gates import Metric

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
                "points": [[self._x(at), value, seconds] for at, value, seconds in points],
            }

    def _x(self, at: Position | int) -> float:
        return float(at if isinstance(at, int) else at.steps_at(self._per_epoch))
