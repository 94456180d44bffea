"""Rules of the section `schedules`: each broken one is a line that says what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.settings.sections.schedules import Schedule, rare, silent_hours
from tests.settings.environment_file import lines_with

NIGHTLY: dict[str, Any] = {"name": "nightly", "expression": "cron(0 3 * * ? *)"}

BROKEN: list[tuple[list[dict[str, Any]], str]] = [
    ([{"name": "nightly"}], "schedules[0].expression: the key is missing"),
    (
        [NIGHTLY | {"name": "Nightly Run"}],
        'schedules[0].name = "Nightly Run": must be lower-case letters',
    ),
    (
        [NIGHTLY | {"expression": "cron(0 3 * * *)"}],
        'expression = "cron(0 3 * * *)": has 5 fields; six are needed',
    ),
    (
        [NIGHTLY | {"expression": "cron(0 3 * * * *)"}],
        "exactly one of day of month and day of week must be ?",
    ),
    (
        [NIGHTLY | {"expression": "rate(1 hours)"}],
        'expression = "rate(1 hours)": write one unit without s',
    ),
    ([NIGHTLY | {"expression": "at(2026-11-20T10:00:00)"}], "write cron("),
    (
        [NIGHTLY | {"expression": "rate(1 hour)", "time_zone": "Europe/Berlin"}],
        "is only read with a cron expression",
    ),
    ([NIGHTLY | {"time_zone": "Europe/Belrin"}], "is no time zone of the IANA database"),
    ([NIGHTLY | {"time_zone": "Europe/Belrin"}], "Europe/Berlin"),
    ([NIGHTLY | {"time_zone": "+01:00"}], "is no time zone"),
    ([NIGHTLY, NIGHTLY], "names nightly 2 times; the names must differ"),
    ([NIGHTLY | {"window_minutes": 1441}], "schedules[0].window_minutes = 1441"),
    ([NIGHTLY | {"paused": "no"}], 'schedules[0].paused = "no": must be true or false'),
    ([NIGHTLY | {"parameters": {"CodeUri": ""}}], "has 0 characters; 1 to 1024 are allowed"),
    ([NIGHTLY | {"every": "day"}], "schedules[0].every: there is no such key here"),
    (
        [NIGHTLY | {"name": f"s{number}"} for number in range(11)],
        "has 11 entries; at most 10 are allowed",
    ),
]


@pytest.mark.parametrize(("schedules", "line"), BROKEN, ids=[line[:50] for _, line in BROKEN])
def test_a_broken_rule_is_one_line(
    tmp_path: Path, schedules: list[dict[str, Any]], line: str
) -> None:
    (problem,) = lines_with(tmp_path, {"schedules": schedules})
    assert line in problem


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"expression": "rate(12 hours)", "paused": True},
        {
            "time_zone": "America/New_York",
            "window_minutes": 30,
            "parameters": {"InstanceCount": 2, "MinAccuracy": 0.9},
        },
        {"expression": "cron(30 9 LW * ? 2026-2030)", "time_zone": "Asia/Kolkata"},
    ],
)
def test_schedules_that_can_be_are_accepted(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert lines_with(tmp_path, {"schedules": [NIGHTLY | changes]}) == []


@pytest.mark.parametrize(
    ("changes", "hours"),
    [
        ({}, 26),  # 24, an hour of delivery, one until the alarm's next period
        ({"time_zone": "Europe/Berlin", "window_minutes": 15}, 28),
        ({"expression": "rate(5 minutes)"}, 3),
        ({"expression": "cron(0 3 ? * MON-FRI *)"}, 74),
        ({"expression": "cron(0 3 ? * MON *)"}, 170),
        ({"expression": "cron(0 3 ? * L *)"}, 170),
        ({"expression": "cron(0 3 1 * ? *)"}, 31 * 24 + 2),
        ({"expression": "cron(0 3 31 * ? *)"}, 61 * 24 + 2),  # from March to May
        ({"expression": "cron(0 3 LW * ? *)", "time_zone": "Europe/Berlin"}, 33 * 24 + 3),
        ({"expression": "cron(0 3,15 1,10 JAN,JUL ? *)"}, 4188 + 2),
        ({"expression": "cron(0 3 ? * FRI#5 *)"}, 119 * 24 + 2),
        ({"expression": "cron(0 3 1 JAN ? *)"}, 366 * 24 + 2),
        ({"expression": "rate(400 days)"}, None),
        ({"expression": "cron(0 3 29 FEB ? *)"}, None),
        ({"expression": "cron(0 3 * * ? 2026-2030)"}, None),
    ],
)
def test_a_schedule_is_silent_for_longer_than_its_times_are_apart_when_one_was_missed(
    changes: dict[str, Any], hours: int | None
) -> None:
    assert silent_hours(Schedule.model_validate(NIGHTLY | changes)) == hours


def test_rare_schedules_are_those_that_are_silent_for_longer_than_an_alarm_looks_back() -> None:
    expressions = {
        "nightly": "cron(0 3 * * ? *)",
        "weekly": "cron(0 3 ? * MON *)",
        "yearly": "cron(0 3 1 JAN ? *)",
        "ending": "cron(0 3 1 * ? 2030)",
    }
    assert rare(
        Schedule(name=name, expression=expression) for name, expression in expressions.items()
    ) == {"weekly": 170, "yearly": 8786}
