"""The curves of a training: each of its numbers, by host and by the rank that printed it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from shoal.aws.logs import LogLine
from shoal.aws.metrics import Progress, parse
from shoal.page.readings.cause import rank_of

if TYPE_CHECKING:  # it needs a package that the function that keeps pages does not have
    from shoal.settings.sections.gates import Metric


def curves_of(
    lines: Sequence[LogLine], metrics: Mapping[str, Metric], began: datetime
) -> Iterator[dict[str, Any]]:
    """Yield the curves in run.json's form, but for the step: points are (step, value, seconds since
    `began`).

    The end of an epoch is its last step; without steps, epochs or readings count.
    """
    parsed = [(line, parse(line.text, metrics)) for line in lines]
    entries = [(line, each) for line, each in parsed if isinstance(each, Progress)]
    per_epoch = max((each.position.steps for _, each in entries if each.position), default=0) or 1
    curves: dict[tuple[str, str, int | None], list[list[float]]] = {}
    for line, progress in entries:
        rank, at = rank_of(line.text), progress.position
        for reading in progress.readings:
            points = curves.setdefault((reading.name, line.host, rank), [])
            x = at.steps_at(per_epoch) if at else len(points) + 1
            seconds = round((line.at - began).total_seconds(), 3)
            points.append([float(x), reading.value, seconds])
    for (name, host, rank), points in curves.items():
        yield {
            "name": name,
            "host": host or None,
            "rank": rank,
            "unit": metrics[name].unit,
            "direction": str(metrics[name].direction or "") or None,
            "points": points,
        }
