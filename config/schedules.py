"""The section `schedules` of an environment file: when the pipeline starts by itself, and how."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated

from pydantic import Field, StringConstraints

from config.base import Settings, Slug
from config.schedule_expressions import max_gap_minutes

Expression = Annotated[str, StringConstraints(min_length=1, max_length=256)]
TimeZone = Annotated[str, StringConstraints(min_length=1, max_length=50)]
MAX_SCHEDULES = 10
DELIVERY_MINUTES = 60
"""For so long EventBridge Scheduler tries to deliver a start."""
MAX_ALARM_HOURS = 168
"""An alarm looks back a week at most (CloudWatch user guide, "Evaluating an alarm": evaluation
periods times period).
"""
MAX_SILENT_DAYS = 400
"""CloudWatch keeps values of an hour for 455 days (API reference, GetMetricData); a year's schedule
needs 366 and some hours.
"""


class Schedule(Settings):
    """One schedule. While an execution of the pipeline runs, it starts nothing and says so."""

    name: Slug
    """Name of the schedule; differs from those of the others."""
    expression: Expression
    """cron(minutes hours day-of-month month day-of-week year) or rate(value unit).

    A rate starts its first execution when deployed.
    """
    time_zone: TimeZone = "UTC"
    """Time zone of a cron expression, as in Europe/Berlin; the time that a change of clocks skips
    is skipped, that it repeats runs once.
    """
    parameters: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Pipeline parameters of its executions, as in `Epochs: 10`; the others have their defaults."""
    window_minutes: Annotated[int, Field(ge=0, le=1440)] = 0
    """Start somewhere within so many minutes after the time; 0 starts at the time (to the minute).
    """
    paused: bool = False
    """Keep the schedule, and start nothing."""


def silent_hours(schedule: Schedule) -> int | None:
    """Return the hours without a sign of the schedule after which it has missed a time.

    None where its years are named, or where it is too rare.
    """
    gap = max_gap_minutes(schedule.expression)
    if gap is None:
        return None
    clocks_change = 0 if schedule.time_zone == "UTC" else 60
    # One more, because an alarm's periods begin at full hours.
    hours = math.ceil((gap + schedule.window_minutes + DELIVERY_MINUTES + clocks_change) / 60) + 1
    return hours if hours <= MAX_SILENT_DAYS * 24 else None


def rare(schedules: Iterable[Schedule]) -> dict[str, int]:
    """Return the silent hours of the schedules that are too rare for an alarm, by name.

    A function watches them (stacks/functions/overdue).
    """
    silent = {schedule.name: silent_hours(schedule) or 0 for schedule in schedules}
    return {name: hours for name, hours in silent.items() if hours > MAX_ALARM_HOURS}
