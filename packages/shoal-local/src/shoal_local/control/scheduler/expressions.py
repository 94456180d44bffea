"""Schedule expressions, and the times that they mean in a time zone.

`rate(...)` and all of `cron(...)` are read, with L, W and #. One-time schedules, `at(...)`, are
refused by name. Source: EventBridge Scheduler user guide, "Schedule types" (a time that a change of
clocks skips is skipped, one that it repeats is taken once).
"""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from shoal_local.control.events.rule_schedules import period_s

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
LAST_YEAR = 2199
MAX_PERIOD_S = 3650 * 86_400
"""Shoal's own limit: AWS's pages give none."""
CRON = re.compile(r"cron\(([^()]*)\)")


class ExpressionError(ValueError):
    """The expression cannot be read, or is not emulated."""


@dataclass(frozen=True)
class Rate:
    """Equal periods from the start of the schedule."""

    period: timedelta

    def next(self, since: datetime, after: datetime) -> datetime | None:
        """Return the first time from `since` on that is later than `after`."""
        if after < since:
            return since
        return since + ((after - since) // self.period + 1) * self.period


@dataclass(frozen=True)
class Cron:
    """The values of each field.

    Days stay as they are written, because their meaning depends on the month.
    """

    minutes: frozenset[int]
    hours: frozenset[int]
    days: str
    months: frozenset[int]
    weekdays: str
    years: frozenset[int]
    zone: ZoneInfo

    def next(self, since: datetime, after: datetime) -> datetime | None:
        """Return the first time from `since` on that is later than `after`; None when there is
        none.
        """
        earliest = max(since - timedelta(microseconds=1), after)
        day = earliest.astimezone(self.zone).date()
        while day.year <= LAST_YEAR:
            if day.year not in self.years:
                day = date(day.year + 1, 1, 1)
                continue
            if self._is_on(day):
                moment_after = next(
                    (moment for moment in self._times(day) if moment > earliest), None
                )
                if moment_after:
                    return moment_after
            day += timedelta(days=1)
        return None

    def _times(self, day: date) -> list[datetime]:
        local = [
            datetime.combine(day, time(hour, minute), self.zone)
            for hour in sorted(self.hours)
            for minute in sorted(self.minutes)
        ]
        return [moment.astimezone(UTC) for moment in local if _exists(moment)]

    def _is_on(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        if self.days == "?":
            return any(_on_weekday(part, day) for part in self.weekdays.split(","))
        return any(_on_day(part, day) for part in self.days.split(","))


def parse(expression: str, time_zone: str) -> Rate | Cron:
    """Return the times of an expression; raise ExpressionError, which says what is wrong or not
    emulated.
    """
    zone = _zone(time_zone)
    seconds = period_s(expression)
    if seconds is not None:
        if seconds > MAX_PERIOD_S:
            raise ExpressionError(f"Invalid Schedule Expression {expression}. It is too long.")
        return Rate(timedelta(seconds=seconds))
    match = CRON.fullmatch(expression)
    fields = match[1].split() if match else []
    if len(fields) != 6 or (fields[2] == "?") == (fields[4] == "?"):
        raise ExpressionError(
            f"Invalid Schedule Expression {expression}. Shoal's emulator has rate(...) and"
            " cron(...)"
        )
    minutes, hours, days, months, weekdays, years = fields
    for part in days.split(",") if weekdays == "?" else weekdays.split(","):
        (_on_day if weekdays == "?" else _on_weekday)(part, date(2026, 1, 1))
    return Cron(
        _set(minutes, 0, 59),
        _set(hours, 0, 23),
        days,
        _set(months, 1, 12, MONTHS),
        weekdays,
        _set(years, 1970, LAST_YEAR),
        zone,
    )


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ValueError, KeyError, OSError) as error:
        raise ExpressionError(f"Invalid Schedule Expression Timezone {name}.") from error


def _exists(moment: datetime) -> bool:
    """Return whether clocks of the zone ever show the time; in spring they skip an hour."""
    return moment.astimezone(UTC).astimezone(moment.tzinfo).replace(tzinfo=None) == moment.replace(
        tzinfo=None
    )


def _on_day(part: str, day: date) -> bool:
    last = calendar.monthrange(day.year, day.month)[1]
    if part == "L":
        return day.day == last
    if part == "LW":
        return day.day == _nearest_weekday(day.year, day.month, last)
    if part.endswith("W"):
        return day.day == _nearest_weekday(day.year, day.month, min(_one(part[:-1], 1, 31), last))
    return day.day in _set(part, 1, 31)


def _on_weekday(part: str, day: date) -> bool:
    weekday = day.isoweekday() % 7 + 1
    if part == "L":
        return weekday == 7
    if part.endswith("L"):
        return (
            weekday == _one(part[:-1], 1, 7, DAYS) and day.month != (day + timedelta(days=7)).month
        )
    name, hash_sign, number = part.partition("#")
    if hash_sign:
        return weekday == _one(name, 1, 7, DAYS) and (day.day - 1) // 7 + 1 == _one(number, 1, 5)
    return weekday in _set(part, 1, 7, DAYS)


@cache
def _nearest_weekday(year: int, month: int, day: int) -> int:
    """Return the working day nearest to a day of the month, in the same month."""
    last = calendar.monthrange(year, month)[1]
    weekday = date(year, month, day).weekday()
    if weekday < calendar.SATURDAY:
        return day
    if weekday == calendar.SATURDAY:
        return day - 1 if day > 1 else 3
    return day + 1 if day < last else last - 2


@cache
def _set(text: str, low: int, high: int, words: tuple[str, ...] = ()) -> frozenset[int]:
    """Return the values of a field, which is a list of values, ranges and steps."""
    values: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        first, dash, last = ("", "-", "") if span == "*" else span.partition("-")
        start = _one(first, low, high, words) if first else low
        end = _one(last, low, high, words) if last else high if slash or dash else start
        every = _one(step, 1, high) if slash else 1
        if end < start:
            raise ExpressionError(f"Invalid Schedule Expression: {part} ends before it begins")
        values.update(range(start, end + 1, every))
    return frozenset(values)


def _one(text: str, low: int, high: int, words: tuple[str, ...] = ()) -> int:
    number = words.index(text) + low if text in words else int(text) if text.isdecimal() else -1
    if not low <= number <= high:
        raise ExpressionError(f"Invalid Schedule Expression: {text} is not in {low} to {high}")
    return number
