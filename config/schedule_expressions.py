"""Schedule expressions of EventBridge and its Scheduler: text in, what is wrong with it or how far its times are apart out.

Source: Amazon EventBridge user guide, "Setting a schedule pattern"; EventBridge Scheduler user guide, "Schedule types".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

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
_WEEK_MINUTES = 7 * 1440
_MAX_RATE_DAYS = 3650
"""Shoal's own limit: AWS's pages give none, and more is a slip."""
_DAYS_OF_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def mistakes_in(expression: str, *, takes_at: bool) -> Iterator[str]:
    """What is wrong with `cron(...)`, `rate(...)` or, where it `takes_at`, `at(...)`."""
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


def longest_gap_minutes(expression: str) -> int | None:
    """The longest time between two starts of a right expression, at clocks that nobody changes.

    None where that is more than a week, where the year ends it, and for days of the month and months, which nobody needs to the minute.
    """
    if rate := _RATE.fullmatch(expression):
        return int(rate[1]) * _MINUTES[rate[2]]
    minutes, hours, day_of_month, month, day_of_week, year = expression.removeprefix("cron(").removesuffix(")").split()
    if day_of_month not in "*?" or (month, year) != ("*", "*") or re.search(r"[#L]", day_of_week):
        return None
    days = range(7) if day_of_week in "*?" else [day - 1 for day in _values(day_of_week, 1, 7, _DAYS)]
    times = sorted(
        day * 1440 + hour * 60 + minute for day in days for hour in _values(hours, 0, 23, []) for minute in _values(minutes, 0, 59, [])
    )
    return max(later - earlier for earlier, later in zip(times, [*times[1:], times[0] + _WEEK_MINUTES], strict=True))


def last_year(expression: str) -> int | None:
    """The last year in which a right cron expression names a time; None for a rate."""
    return max(_values(expression.removesuffix(")").split()[5], 1970, 2199, [])) if expression.startswith("cron(") else None


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
    if (fields[2] == "?") == (fields[4] == "?"):
        yield "exactly one of day of month and day of week must be ?"
    right = True
    for text, (name, low, high, words) in zip(fields, _FIELDS, strict=True):
        wrong = [part for part in text.split(",") if not _is_part(part, name, low, high, words)]
        if wrong:
            right = False
            yield f"{name} {wrong[0]!r} is not in {low} to {high}{' or ' + words[0] + ' to ' + words[-1] if words else ''}"
    if right and not _has_days(fields[2], fields[3]):
        yield f"no month in {fields[3]} has a day in {fields[2]}, so it would never start"


def _has_days(days: str, months: str) -> bool:
    """Whether a day of the month is there in any of the months; with L and W, and where the week decides, always."""
    if re.search(r"[?LW]", days):
        return True
    first = min(_values(days, 1, 31, []))
    return any(first <= _DAYS_OF_MONTHS[month - 1] for month in _values(months, 1, 12, _MONTHS))


def _is_part(part: str, name: str, low: int, high: int, words: list[str]) -> bool:
    """One item of a field's list: a value, a range or a step, and what only days know (L, W, #, ?)."""
    if name == "day of month" and (part in ("?", "L", "LW") or re.fullmatch(r"([1-9]|[12]\d|3[01])W", part)):
        return True
    if name == "day of week" and (part in ("?", "L") or re.fullmatch(r"([1-7]|SUN|MON|TUE|WED|THU|FRI|SAT)(L|#[1-5])", part)):
        return True
    span, slash, step = part.partition("/")
    if slash and not (step.isdecimal() and 0 < int(step) <= high):
        return False
    if span == "*":
        return True
    numbers = [_number(text, low, words) for text in span.split("-")]
    return len(numbers) <= 2 and all(number is not None and low <= number <= high for number in numbers) and _rises(numbers)


def _rises(numbers: list[int | None]) -> bool:
    """AWS's pages have no range from late to early (FRI-MON), so nobody knows what it would mean."""
    return len(numbers) < 2 or (numbers[0] or 0) <= (numbers[1] or 0)


def _values(text: str, low: int, high: int, words: list[str]) -> set[int]:
    """All values of a right field without L, W, # and ?."""
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        first, _, last = ("", "", "") if span == "*" else span.partition("-")
        start = _number(first, low, words) if first else low
        end = _number(last, low, words) if last else start if first and not slash else high
        found.update(range(start or 0, (end or 0) + 1, int(step or 1)))
    return found


def _number(text: str, low: int, words: list[str]) -> int | None:
    if text in words:
        return words.index(text) + low
    return int(text) if text.isdecimal() else None
