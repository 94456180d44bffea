"""Expressions of schedules, and after how many hours without a sign one has missed a time."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.settings.parsing.schedule_expressions import max_gap_minutes, mistakes_in
from shoal.settings.sections.schedules import Schedule, rare, silent_hours

GOOD = [
    "cron(0 10 * * ? *)",
    "cron(15 12 ? * MON-FRI *)",
    "cron(0/15 8-17 L JAN,JUL ? 2026-2030)",
    "cron(0 9 ? * 2#1 *)",
    "cron(0 9 ? * FRIL *)",
    "cron(0 9 29-31 FEB ? *)",
    "cron(0 9 31 2,3 ? *)",
    "cron(0 3 29 2 ? 2027-2028)",
    "cron(0 3 29,L 2 ? 2027)",
    "cron(0 3 ? FEB TUE#5 2028)",
    "cron(0 3 ? 4 FRI#5 2027)",
    "cron(*/59 9 * * ? *)",
    "rate(1 hour)",
    "rate(3650 days)",
    "rate(5 minutes)",
]
BAD = [
    ("cron(0 10 * * ?)", "has 5 fields; six are needed"),
    ("cron(0 10 * * * *)", "exactly one of day of month and day of week must be ?"),
    ("cron(0 10 ? * ? *)", "exactly one of"),
    ("cron(60 10 * * ? *)", "minutes '60' is not in 0 to 59"),
    ("cron(0 24 * * ? *)", "hours '24' is not in 0 to 23"),
    ("cron(0 10 32 * ? *)", "day of month '32' is not in 1 to 31"),
    ("cron(0 10 1 FOO ? *)", "month 'FOO' is not in 1 to 12 or JAN to DEC"),
    ("cron(0 10 ? * 8 *)", "day of week '8' is not in 1 to 7 or SUN to SAT"),
    ("cron(0 10 * * ? 1969)", "year '1969' is not in 1970 to 2199"),
    ("cron(0/0 10 * * ? *)", "minutes '0/0'"),
    ("cron(*/60 10 * * ? *)", "minutes '*/60'"),
    ("cron(0 10 31 2,4 ? *)", "no month in 2,4 has a day in 31, so it would never start"),
    ("cron(0 3 15W * ? *)", "day of month '15W' is not in 1 to 31, L or LW"),
    ("cron(0 3 29 2 ? 2027)", "no month in 2 of 2027 has a day in 29, so it would never start"),
    ("cron(0 3 29-31 FEB ? 2097-2103)", "no month in FEB of 2097-2103 has a day in 29-31"),
    ("cron(0 3 ? FEB MON#5 2027)", "no month in FEB of 2027 has a day in MON#5"),
    ("cron(0 3 ? * 3#1,6#3 *)", "day of week with # has one expression only"),
    ("cron(0 3 L/2 * ? *)", "day of month 'L/2' is not in 1 to 31, L or LW"),
    ("cron(0 3 ? 4 SAT#5 2027)", "no month in 4 of 2027 has a day in SAT#5"),
    ("rate(3651 days)", "is more than 3650 days"),
    ("rate(1 hours)", "write one unit without s"),
    ("rate(5 minute)", "write several units with s"),
    ("rate(0 minutes)", "the value must be positive"),
    ("rate(5 seconds)", "write cron("),
    ("every day", "write cron("),
    ("cron(0 10 ? * 2/8 *)", "day of week '2/8' is not in 1 to 7"),
    ("cron(0 10 ? * mon *)", "day of week 'mon'"),
    ("cron(0 10 ? * FRI-MON *)", "day of week 'FRI-MON' is not in 1 to 7"),
    ("at(2026-11-20T10:00:00)", "write cron("),
]


@pytest.mark.parametrize("expression", GOOD)
def test_an_expression_that_eventbridge_takes_passes(expression: str) -> None:
    assert list(mistakes_in(expression)) == []


@pytest.mark.parametrize(("expression", "text"), BAD)
def test_an_expression_that_eventbridge_refuses_is_one_mistake(expression: str, text: str) -> None:
    (mistake,) = mistakes_in(expression)
    assert text in mistake


@pytest.mark.parametrize(
    ("expression", "minutes"),
    [
        ("rate(1 minute)", 1),
        ("rate(2 days)", 2880),
        ("cron(0 3 * * ? *)", 1440),
        ("cron(0 */6 * * ? *)", 360),
        ("cron(0/15 8-17 ? * MON-FRI *)", 3735),  # from Friday 17:45 to Monday 8:00
        ("cron(30 22 ? * SAT,SUN *)", 8640),
        ("cron(0 3 ? * MON *)", 10080),
        ("cron(0 3 ? * 2/3 *)", 5760),  # Monday and Thursday, not Sunday
        ("cron(0 3 1 * ? *)", 31 * 1440),
        ("cron(0 3 ? * 2#1 *)", 35 * 1440),
        (
            "cron(0 3,4 * JAN ? *)",
            335 * 1440 - 60 + 1440,
        ),  # 11 months, 29 February among them, from 4:00 on the 31st
        ("cron(0 3 * * ? 2030)", None),
    ],
)
def test_the_longest_time_between_two_starts_is_known_unless_it_names_years(
    expression: str, minutes: int | None
) -> None:
    assert max_gap_minutes(expression) == minutes


NIGHTLY: dict[str, Any] = {"name": "nightly", "expression": "cron(0 3 * * ? *)"}


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
def test_a_schedule_is_silent_for_longer_than_its_times_are_apart(
    changes: dict[str, Any], hours: int | None
) -> None:
    assert silent_hours(Schedule.model_validate(NIGHTLY | changes)) == hours


def test_rare_schedules_are_silent_for_longer_than_an_alarm_looks_back() -> None:
    expressions = {
        "nightly": "cron(0 3 * * ? *)",
        "weekly": "cron(0 3 ? * MON *)",
        "yearly": "cron(0 3 1 JAN ? *)",
        "ending": "cron(0 3 1 * ? 2030)",
    }
    assert rare(
        Schedule(name=name, expression=expression) for name, expression in expressions.items()
    ) == {"weekly": 170, "yearly": 8786}
