"""Expressions of schedules, and after how many hours without a sign one has missed a time."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.settings.parsing.schedule_expressions import max_gap_minutes, mistakes_in
from shoal.settings.sections.schedules import Schedule, rare, silent_hours
from tests.tables import rows, table

GOOD = table(__file__, "sections.yaml")["good_expressions"]
BAD = rows(__file__, "sections.yaml", "bad_expressions")


@pytest.mark.parametrize("expression", GOOD)
def test_an_expression_that_eventbridge_takes_passes(expression: str) -> None:
    assert list(mistakes_in(expression)) == []


@pytest.mark.parametrize(("expression", "text"), BAD)
def test_an_expression_that_eventbridge_refuses_is_one_mistake(expression: str, text: str) -> None:
    (mistake,) = mistakes_in(expression)
    assert text in mistake


@pytest.mark.parametrize(("expression", "minutes"), rows(__file__, "sections.yaml", "gaps"))
def test_the_longest_time_between_two_starts_is_known_unless_it_names_years(
    expression: str, minutes: int | None
) -> None:
    assert max_gap_minutes(expression) == minutes


NIGHTLY: dict[str, Any] = {"name": "nightly", "expression": "cron(0 3 * * ? *)"}


@pytest.mark.parametrize(("changes", "hours"), rows(__file__, "sections.yaml", "silent"))
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
