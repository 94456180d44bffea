"""The metrics that CloudWatch reads from the log lines of a training job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import StringConstraints

from config.base import Settings
from config.errors import Problem

LogMetricName = Annotated[
    str,
    StringConstraints(
        pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*(:[a-z][a-z0-9]*(_[a-z0-9]+)*)?$", max_length=255
    ),
]
MAX_METRICS = 30
"""Of the 40 that a training job may define (botocore 1.44.5, MetricDefinitionList; read); Shoal
adds its own.
"""


class Direction(StrEnum):
    """Which of two values of a metric is the better one."""

    HIGHER = "higher"
    LOWER = "lower"


class Metric(Settings):
    """A number in the log lines of rank 0."""

    regex: Annotated[str, StringConstraints(min_length=1, max_length=500)]
    """Regular expression with one group, which is the number."""
    unit: Annotated[str, StringConstraints(max_length=20)] = ""
    """What the number counts, as in rows/s."""
    direction: Direction | None = None
    """Which values are better; a gate `not_worse_than` of the same name needs it."""
    progress: bool = False
    """Whether a training is followed by this number: `shoal run --follow` and reports show it.

    Where none is marked, all are.
    """
    note: Annotated[str, StringConstraints(max_length=100)] = ""
    """What a reader of its curve should know; the demo writes it beside the curve."""


def problems_of(metrics: Mapping[str, Metric], where: str) -> Iterator[Problem]:
    """Yield what is wrong with metrics, which stand at the key `where`."""
    if len(metrics) > MAX_METRICS:
        yield Problem(where, f"has {len(metrics)} metrics", f"keep at most {MAX_METRICS}")
    for name, metric in metrics.items():
        key = f"{where}.{name}.regex"
        try:
            groups = re.compile(metric.regex).groups
        except re.error as error:
            yield Problem(key, f"is no regular expression: {error}", "correct it", metric.regex)
            continue
        if groups != 1:
            message = f"has {groups} groups, and the one is the number"
            yield Problem(key, message, "write (?:...) for groups that are not", metric.regex)
