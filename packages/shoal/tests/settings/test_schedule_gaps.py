"""After how many hours without a sign a schedule has missed a time."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.settings.sections.schedules import Schedule, rare, silent_hours

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
