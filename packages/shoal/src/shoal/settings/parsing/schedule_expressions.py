"""The schedule expressions of EventBridge and its Scheduler: their mistakes, and their times.

Source: Amazon EventBridge user guide, "Setting a schedule pattern"; EventBridge Scheduler user
guide, "Schedule types".
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from functools import cache
from itertools import pairwise, product

_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
_FIELDS: tuple[tuple[str, int, int, list[str]], ...] = (
    ("minutes", 0, 59, []),
    ("hours", 0, 23, []),
    ("day of month", 1, 31, []),
    ("month", 1, 12, _MONTHS),
    ("day of week", 1, 7, _DAYS),
    ("year", 1970, 2199, []),
)
_RATE = re.compile(r"rate\((\d+) (minute|hour|day)(s?)\)")
_CALL = re.compile(r"(cron|at)\(([^()]*)\)")
_MINUTES = {"minute": 1, "hour": 60, "day": 1440}
_CYCLE = range(2001, 2029)
"""From 1901 to 2099 dates and weekdays repeat every 28 years."""
_CYCLE_DAYS = 28 * 365 + 7
_MAX_RATE_DAYS = 3650
"""Shoal's own limit: AWS's pages give none, and more is a slip."""


def mistakes_in(expression: str, *, takes_at: bool) -> Iterator[str]:
    """Yield what is wrong with `cron(...)`, `rate(...)` or, where it `takes_at`, `at(...)`."""
    if rate := _RATE.fullmatch(expression):
        yield from _rate_mistakes(int(rate[1]), rate[2], rate[3] == "s")
        return
    call = _CALL.fullmatch(expression)
    if call is None or (call[1] == "at" and not takes_at):
        yield "write cron(minutes hours day-of-month month day-of-week year) or rate(value unit)"
    elif call[1] == "at":
        yield from _time_mistakes(call[2])
    else:
        yield from _cron_mistakes(call[2].split())


@cache
def max_gap_minutes(expression: str) -> int | None:
    """Return the longest time between two starts of a right expression; None where it names years.

    Changes of clocks do not count. A gap of up to a year is exact: it lies in three years, and the
    cycle has every row of three years that exists. A longer gap may be even longer around 2100,
    which is no leap year.
    """
    if rate := _RATE.fullmatch(expression):
        return int(rate[1]) * _MINUTES[rate[2]]
    minutes, hours, day_of_month, month, day_of_week, year = (
        expression.removeprefix("cron(").removesuffix(")").split()
    )
    days = sorted(_days(day_of_month, month, day_of_week, _CYCLE))
    if year != "*" or not days:
        return None
    times = sorted(
        60 * hour + minute
        for hour, minute in product(_values(hours, 0, 23, []), _values(minutes, 0, 59, []))
    )
    days_apart = max(later - earlier for earlier, later in pairwise([*days, days[0] + _CYCLE_DAYS]))
    return max(
        days_apart * 1440 - times[-1] + times[0],
        *(later - earlier for earlier, later in pairwise(times)),
        0,
    )


def last_year(expression: str) -> int | None:
    """Return the last year in which a right cron expression names a time; None for a rate."""
    return (
        max(_values(expression.removesuffix(")").split()[5], 1970, 2199, []))
        if expression.startswith("cron(")
        else None
    )


def _days(day_of_month: str, months: str, day_of_week: str, years: Iterable[int]) -> Iterator[int]:
    """Yield the days of the years that right fields mean, as ordinals."""
    for year, month in product(years, _values(months, 1, 12, _MONTHS)):
        first, length = date(year, month, 1), calendar.monthrange(year, month)[1]
        month_days = (
            _in_weeks(day_of_week, first, length)
            if day_of_month == "?"
            else _in_month(day_of_month, first, length)
        )
        yield from {first.toordinal() + day - 1 for day in month_days}


def _in_month(text: str, first: date, length: int) -> Iterator[int]:
    """Yield the days of one month.

    A month that lacks the day of `31W` is taken to have none; AWS's pages do not say.
    """
    for part in text.split(","):
        if part.endswith("W"):
            nearest_to = length if part == "LW" else int(part[:-1])
            if nearest_to <= length:
                yield _working_day(nearest_to, first, length)
        else:
            yield from (
                [length]
                if part == "L"
                else [day for day in _values(part, 1, 31, []) if day <= length]
            )


def _working_day(day: int, first: date, length: int) -> int:
    """Return the working day that is nearest to `day` in the same month."""
    weekday = (first.weekday() + day - 1) % 7
    if weekday == calendar.SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == calendar.SUNDAY:
        return day + 1 if day < length else day - 2
    return day


def _in_weeks(text: str, first: date, length: int) -> Iterator[int]:
    """Yield the days of one month by their day of the week; L alone is every Saturday."""
    for part in text.split(","):
        name, _, which = part.partition("#")
        for weekday in {7} if part == "L" else _values(name.removesuffix("L"), 1, 7, _DAYS):
            days = [
                day for day in range(1, length + 1) if (first.weekday() + day) % 7 + 1 == weekday
            ]
            yield from (
                days[int(which) - 1 : int(which)]
                if which
                else days[-1:]
                if part[:-1] and part.endswith("L")
                else days
            )


def _rate_mistakes(value: int, unit: str, plural: bool) -> Iterator[str]:
    if value == 0:
        yield "the value must be positive"
    elif (value == 1) == plural:
        yield f"write {'one unit without' if value == 1 else 'several units with'} s"
    elif value * _MINUTES[unit] > _MAX_RATE_DAYS * 1440:
        yield f"is more than {_MAX_RATE_DAYS} days, the most that is allowed here"


def _time_mistakes(text: str) -> Iterator[str]:
    try:
        datetime.strptime(text, "%Y-%m-%dT%H:%M:%S")  # noqa: DTZ007 - only its form counts; the schedule has the time zone
    except ValueError:
        yield "write at(yyyy-mm-ddThh:mm:ss)"


def _cron_mistakes(fields: list[str]) -> Iterator[str]:
    if len(fields) != len(_FIELDS):
        yield f"has {len(fields)} fields; six are needed: {', '.join(name for name, *_ in _FIELDS)}"
        return
    right = (fields[2] == "?") != (fields[4] == "?")
    if not right:
        yield "exactly one of day of month and day of week must be ?"
    for text, (name, low, high, words) in zip(fields, _FIELDS, strict=True):
        wrong = [part for part in text.split(",") if not _is_part(part, name, low, high, words)]
        if wrong:
            right = False
            yield (
                f"{name} {wrong[0]!r} is not in {low} to"
                f" {high}{' or ' + words[0] + ' to ' + words[-1] if words else ''}"
            )
    _, _, days, months, weekdays, years = fields
    if right and not any(_days(days, months, weekdays, _values(years, 1970, 2199, []))):
        of_years = "" if years == "*" else f" of {years}"
        yield (
            f"no month in {months}{of_years} has a day in {weekdays if days == '?' else days}, so"
            " it would never start"
        )


def _is_part(part: str, name: str, low: int, high: int, words: list[str]) -> bool:
    """Return whether `part` is one item of a field's list.

    That is a value, a range or a step, and for days L, W, # and ? too.
    """
    if name == "day of month" and (
        part in ("?", "L", "LW") or re.fullmatch(r"([1-9]|[12]\d|3[01])W", part)
    ):
        return True
    if name == "day of week" and (
        part in ("?", "L") or re.fullmatch(r"([1-7]|SUN|MON|TUE|WED|THU|FRI|SAT)(L|#[1-5])", part)
    ):
        return True
    span, slash, step = part.partition("/")
    if slash and not (step.isdecimal() and 0 < int(step) <= high):
        return False
    if span == "*":
        return True
    numbers = [_number(text, low, words) for text in span.split("-")]
    return (
        len(numbers) <= 2
        and all(number is not None and low <= number <= high for number in numbers)
        and _rises(numbers)
    )


def _rises(numbers: list[int | None]) -> bool:
    """Refuse a range from late to early (FRI-MON): AWS's pages do not say what it would mean."""
    return len(numbers) < 2 or (numbers[0] or 0) <= (numbers[1] or 0)


def _values(text: str, low: int, high: int, words: list[str]) -> set[int]:
    """Return all values of a right field without L, W, # and ?."""
    values: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        first, _, last = ("", "", "") if span == "*" else span.partition("-")
        start = _number(first, low, words) if first else low
        end = _number(last, low, words) if last else start if first and not slash else high
        values.update(range(start or 0, (end or 0) + 1, int(step or 1)))
    return values


def _number(text: str, low: int, words: list[str]) -> int | None:
    if text in words:
        return words.index(text) + low
    return int(text) if text.isdecimal() else None
