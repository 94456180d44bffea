"""The section `schedules` of an environment file: when the pipeline starts by itself, and how."""

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated
from zoneinfo import available_timezones

from pydantic import Field

from shoal.settings.parsing.base import Settings, Slug
from shoal.settings.parsing.errors import Problem, repeated
from shoal.settings.parsing.schedule_expressions import max_gap_minutes, mistakes_in
from shoal.settings.sections.channels import MANIFEST_PARAMETER, Data, InputMode, uri_parameter

Expression = Annotated[str, Field(min_length=1, max_length=256)]
TimeZone = Annotated[str, Field(min_length=1, max_length=50)]
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
MAX_VALUE = 1024  # botocore, sagemaker Parameter.Value
_UTC = "UTC"


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
    """Return the hours without a sign after which a time was missed; None if it is too rare."""
    gap = max_gap_minutes(schedule.expression)
    if gap is None:
        return None
    clocks_change = 0 if schedule.time_zone == "UTC" else 60
    # One more, because an alarm's periods begin at full hours.
    hours = math.ceil((gap + schedule.window_minutes + DELIVERY_MINUTES + clocks_change) / 60) + 1
    return hours if hours <= MAX_SILENT_DAYS * 24 else None


def rare(schedules: Iterable[Schedule]) -> dict[str, int]:
    """Return the silent hours of those too rare for an alarm, by name: the sweeper watches."""
    silent = {schedule.name: silent_hours(schedule) or 0 for schedule in schedules}
    return {name: hours for name, hours in silent.items() if hours > MAX_ALARM_HOURS}


def problems(schedules: Sequence[Schedule], data: Data) -> Iterator[Problem]:
    """Yield what is wrong with the sections `schedules` and `data.on_manifest`."""
    yield from expression_problems(schedules, "schedules")
    for where, parameters in execution_parameters(schedules, data):
        for name, value in parameters.items():
            key = f"{where}.parameters.{name}"
            if not 0 < len(str(value)) <= MAX_VALUE:
                message = f"has {len(str(value))} characters; 1 to {MAX_VALUE} are allowed"
                yield Problem(key, message, "give another value, or none", value)
    if data.on_manifest is None:
        return
    if data.input_mode is InputMode.FSX:
        message = (
            "needs data that is read from S3: a file system shows what the bucket has only some"
            " time after the manifest came"
        )
        advice = "remove it, or use data.input_mode: File or FastFile"
        yield Problem("data.on_manifest", message, advice, related=("data.input_mode",))
    decided = {MANIFEST_PARAMETER, *map(uri_parameter, data.in_dataset)}
    for name in sorted(decided & data.on_manifest.parameters.keys()):
        message = "is what the manifest itself decides"
        yield Problem(f"data.on_manifest.parameters.{name}", message, "remove it")


def expression_problems(schedules: Sequence[Schedule], where: str) -> Iterator[Problem]:
    """Yield what is wrong with names and times of schedules, which stand at the key `where`."""
    if len(schedules) > MAX_SCHEDULES:
        message = f"has {len(schedules)} entries; at most {MAX_SCHEDULES} are allowed"
        yield Problem(where, message, "remove some")
    for message in repeated(schedule.name for schedule in schedules):
        yield Problem(where, f"{message}; the names must differ", "rename one")
    for index, schedule in enumerate(schedules):
        yield from _times(schedule, f"{where}[{index}]")


def _times(schedule: Schedule, key: str) -> Iterator[Problem]:
    """Yield what is wrong with the expression, the time zone for it, and the window."""
    expression, is_rate = f"{key}.expression", schedule.expression.startswith("rate(")
    mistakes = list(mistakes_in(schedule.expression))
    for mistake in mistakes:
        yield Problem(expression, mistake, "see cron(0 3 * * ? *) and rate(12 hours)")
    if schedule.time_zone != _UTC and schedule.time_zone not in available_timezones():
        known = sorted(available_timezones())
        near = difflib.get_close_matches(schedule.time_zone, known, n=3, cutoff=0.5)
        message = "is no time zone of the IANA database, as this machine has it"
        advice = f"use UTC, or a name such as {', '.join(near) or 'Europe/Berlin'}"
        yield Problem(f"{key}.time_zone", message, advice)
    if mistakes or not is_rate:
        return
    if schedule.time_zone != _UTC:
        message = "is only read with a cron expression: a rate counts from when it was deployed"
        advice = "remove it, or write a cron expression"
        yield Problem(f"{key}.time_zone", message, advice, related=(expression,))
    every = max_gap_minutes(schedule.expression)
    if every is not None and schedule.window_minutes > every:
        message = f"is longer than the time between two starts, {every} min"
        advice = f"use at most {every}"
        yield Problem(f"{key}.window_minutes", message, advice, related=(expression,))


def execution_parameters(
    schedules: Sequence[Schedule], data: Data
) -> Iterator[tuple[str, Mapping[str, str | int | float | bool]]]:
    """Yield each place in the file that sets parameters of executions, and the parameters."""
    for index, schedule in enumerate(schedules):
        yield f"schedules[{index}]", schedule.parameters
    if data.on_manifest:
        yield "data.on_manifest", data.on_manifest.parameters
