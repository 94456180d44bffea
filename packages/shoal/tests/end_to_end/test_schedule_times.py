"""Which times an expression of EventBridge Scheduler means, where calendars and clocks are
awkward.
"""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from shoal.settings.parsing.schedule_expressions import max_gap_minutes
from shoal_local.control.scheduler.expressions import parse

START = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)  # a Friday


def times(
    expression: str, count: int, zone: str = "UTC", since: datetime = START
) -> list[datetime]:
    parsed, found = parse(expression, zone), [since - timedelta(seconds=1)]
    for _ in range(count):
        due_at = parsed.next(since, found[-1])
        assert due_at is not None
        found.append(due_at)
    return found[1:]


def days(expression: str, count: int) -> list[str]:
    return [f"{moment:%m-%d}" for moment in times(expression, count)]


def test_a_rate_begins_at_once() -> None:
    assert times("rate(1 minute)", 3) == [
        START,
        START + timedelta(minutes=1),
        START + timedelta(minutes=2),
    ]


def test_a_rate_that_was_late_goes_on_where_it_would_have_been() -> None:
    late = START + timedelta(minutes=7, seconds=30)
    assert parse("rate(5 minutes)", "UTC").next(START, late) == START + timedelta(minutes=10)


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("cron(0 3 * * ? *)", ["11-21", "11-22", "11-23"]),
        ("cron(0 3 ? * MON-FRI *)", ["11-23", "11-24", "11-25"]),
        ("cron(0 3 ? * 1,7 *)", ["11-21", "11-22", "11-28"]),
        ("cron(0 3 L * ? *)", ["11-30", "12-31", "01-31"]),
        ("cron(0 3 LW * ? *)", ["11-30", "12-31", "01-29"]),
        ("cron(0 3 ? * 2/3 *)", ["11-23", "11-26", "11-30"]),
        ("cron(0 3 31 * ? *)", ["12-31", "01-31", "03-31"]),
        ("cron(0 3 29 FEB ? *)", ["02-29", "02-29", "02-29"]),
        ("cron(0 3 ? * 2#1 *)", ["12-07", "01-04", "02-01"]),
        ("cron(0 3 ? * FRIL *)", ["11-27", "12-25", "01-29"]),
        ("cron(0 3 1/10 * ? *)", ["11-21", "12-01", "12-11"]),
    ],
)
def test_days_are_those_that_the_expression_means(expression: str, wanted: list[str]) -> None:
    assert days(expression, 3) == wanted


def test_minutes_and_hours_are_lists_ranges_and_steps() -> None:
    found = [f"{moment:%H:%M}" for moment in times("cron(0/30 11-12,22 * * ? *)", 6)]
    assert found == ["11:00", "11:30", "12:00", "12:30", "22:00", "22:30"]


def test_an_hour_that_spring_skips_is_skipped() -> None:
    found = times("cron(30 2 * * ? *)", 3, "Europe/Berlin", datetime(2027, 3, 26, 12, tzinfo=UTC))
    assert [f"{moment:%m-%d %H:%M}" for moment in found] == [
        "03-27 01:30",
        "03-29 00:30",
        "03-30 00:30",
    ]


def test_an_hour_that_autumn_repeats_is_taken_once() -> None:
    found = times("cron(30 2 * * ? *)", 3, "Europe/Berlin", datetime(2027, 10, 30, 12, tzinfo=UTC))
    assert [f"{moment:%m-%d %H:%M}" for moment in found] == [
        "10-31 00:30",
        "11-01 01:30",
        "11-02 01:30",
    ]


def test_a_year_that_is_over_means_no_more_times() -> None:
    assert parse("cron(0 3 * * ? 2025)", "UTC").next(START, START) is None


def longest(expression: str) -> timedelta:
    """Between two of many times; what comes three times a month or less is looked at until dates
    and weekdays come back, in 28 years.
    """
    parsed, found = parse(expression, "UTC"), [START]
    while len(found) < 1300 and found[-1] < START + timedelta(days=28 * 366):
        due_at = parsed.next(START, found[-1])
        assert due_at is not None
        found.append(due_at)
    return max(later - earlier for earlier, later in itertools.pairwise(found[1:]))


@pytest.mark.parametrize(
    "expression",
    [
        "cron(0 3 * * ? *)",
        "cron(0/15 8-17 ? * MON-FRI *)",
        "cron(30 22 ? * SAT,SUN *)",
        "rate(6 hours)",
        "cron(0 */7 * * ? *)",
        "cron(0 3 ? * L *)",
        "cron(0 3 1 * ? *)",
        "cron(0 3,23 31 * ? *)",
        "cron(0 3 10/7 * ? *)",
        "cron(0 3 L * ? *)",
        "cron(0 3 LW * ? *)",
        "cron(15,45 3,20 ? * FRI#5 *)",
        "cron(0 3 ? * MON#1,FRIL *)",
        "cron(0 3 ? JAN,JUL 2L *)",
        "cron(0 3 4 7 ? *)",
        "cron(0 3 29 FEB ? *)",
    ],
)
def test_the_gap_that_alarms_are_made_from_is_the_longest_between_these_times(
    expression: str,
) -> None:
    assert longest(expression) == timedelta(minutes=max_gap_minutes(expression) or 0)
