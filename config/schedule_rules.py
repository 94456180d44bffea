"""The rules of the sections `schedules` and `data.on_manifest` that a type cannot say."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from zoneinfo import available_timezones

from config.channels import uri_parameter
from config.errors import Problem
from config.manifest import MANIFEST_PARAMETER
from config.schedule_expressions import max_gap_minutes, mistakes_in
from config.schedules import MAX_SCHEDULES
from config.settings import Environment, InputMode

MAX_VALUE = 1024  # botocore, sagemaker Parameter.Value
_UTC = "UTC"


def _names(environment: Environment) -> Iterator[Problem]:
    names = [schedule.name for schedule in environment.schedules]
    if len(names) > MAX_SCHEDULES:
        yield Problem(
            "schedules",
            f"has {len(names)} entries; at most {MAX_SCHEDULES} are allowed",
            "remove some",
        )
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Problem(
            "schedules",
            f"names {name} {names.count(name)} times; the names must differ",
            "rename one",
        )


def _expressions(environment: Environment) -> Iterator[Problem]:
    for index, schedule in enumerate(environment.schedules):
        key = f"schedules[{index}].expression"
        mistakes = list(mistakes_in(schedule.expression, takes_at=False))
        for mistake in mistakes:
            yield Problem(
                key, mistake, "see cron(0 3 * * ? *) and rate(12 hours)", schedule.expression
            )
        if not mistakes and schedule.expression.startswith("rate(") and schedule.time_zone != _UTC:
            message = "is only read with a cron expression: a rate counts from when it was deployed"
            yield Problem(
                f"schedules[{index}].time_zone",
                message,
                "remove it, or write a cron expression",
                schedule.time_zone,
                (key,),
            )


def _time_zones(environment: Environment) -> Iterator[Problem]:
    if all(schedule.time_zone == _UTC for schedule in environment.schedules):
        return
    time_zones = available_timezones() | {_UTC}
    for index, schedule in enumerate(environment.schedules):
        if schedule.time_zone not in time_zones:
            near = (
                ", ".join(
                    difflib.get_close_matches(
                        schedule.time_zone, sorted(time_zones), n=3, cutoff=0.5
                    )
                )
                or "Europe/Berlin"
            )
            message = "is no time zone of the IANA database, as this machine has it"
            yield Problem(
                f"schedules[{index}].time_zone",
                message,
                f"use UTC, or a name such as {near}",
                schedule.time_zone,
            )


def _windows(environment: Environment) -> Iterator[Problem]:
    """Within a window that is longer than the rate, a start could come after the next one."""
    for index, schedule in enumerate(environment.schedules):
        expression, window = f"schedules[{index}].expression", schedule.window_minutes
        if not schedule.expression.startswith("rate(") or list(
            mistakes_in(schedule.expression, takes_at=False)
        ):
            continue
        every = max_gap_minutes(schedule.expression)
        if every is not None and window > every:
            message = f"is longer than the time between two starts, {every} min"
            yield Problem(
                f"schedules[{index}].window_minutes",
                message,
                f"use at most {every}",
                window,
                (expression,),
            )


def _values(environment: Environment) -> Iterator[Problem]:
    for where, parameters in execution_parameters(environment):
        for name, value in parameters.items():
            key = f"{where}.parameters.{name}"
            if not 0 < len(str(value)) <= MAX_VALUE:
                yield Problem(
                    key,
                    f"has {len(str(value))} characters; 1 to {MAX_VALUE} are allowed",
                    "give another value, or none",
                    value,
                )


def execution_parameters(
    environment: Environment,
) -> Iterator[tuple[str, Mapping[str, str | int | float | bool]]]:
    """Yield each place in the file that sets parameters of executions, and the parameters."""
    for index, schedule in enumerate(environment.schedules):
        yield f"schedules[{index}]", schedule.parameters
    if environment.data.on_manifest:
        yield "data.on_manifest", environment.data.on_manifest.parameters


def _manifest(environment: Environment) -> Iterator[Problem]:
    on_manifest = environment.data.on_manifest
    if on_manifest is None:
        return
    if environment.data.input_mode is InputMode.FSX:
        message = (
            "needs data that is read from S3: a file system shows what the bucket has only some"
            " time after the manifest came"
        )
        yield Problem(
            "data.on_manifest",
            message,
            "remove it, or use data.input_mode: File or FastFile",
            None,
            ("data.input_mode",),
        )
    decided = {MANIFEST_PARAMETER, *map(uri_parameter, environment.data.in_dataset)}
    for name in sorted(decided & on_manifest.parameters.keys()):
        message = "is what the manifest itself decides"
        yield Problem(
            f"data.on_manifest.parameters.{name}",
            message,
            "remove it",
            on_manifest.parameters[name],
        )


RULES = (_names, _expressions, _time_zones, _windows, _values, _manifest)
