"""The schedule expressions of EventBridge and its Scheduler: their mistakes, and their times.

Source: Amazon EventBridge user guide, "Setting a schedule pattern"; EventBridge Scheduler user
guide, "Schedule types". The package cronsim reads all of a cron expression but its year.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from itertools import pairwise, takewhile

from cronsim import CronSim, CronSimError

_FIELDS = (
    ("minutes", "0 to 59", 59),
    ("hours", "0 to 23", 23),
    ("day of month", "1 to 31, L or LW", 31),
    ("month", "1 to 12 or JAN to DEC", 12),
    ("day of week", "1 to 7 or SUN to SAT", 7),
    ("year", "1970 to 2199", 2199),
)
"""Name, values and largest step of each. EventBridge has days like 15W, too; cronsim has not."""
_DAYS = {
    text: str(number)
    for number, name in enumerate(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"))
    for text in (name, str(number + 1))
}
"""As EventBridge writes a day of the week -> as cron does."""
_YEARS = range(1970, 2200)
_RATE = re.compile(r"rate\((\d+) (minute|hour|day)(s?)\)")
_CRON = re.compile(r"cron\(([^()]*)\)")
_MINUTES = {"minute": 1, "hour": 60, "day": 1440}
_CYCLE = range(2001, 2029)
"""From 1901 to 2099 dates and weekdays repeat every 28 years."""
_CYCLE_DAYS = 28 * 365 + 7
_MAX_RATE_DAYS = 3650
"""Shoal's own limit: AWS's pages give none, and more is a slip."""


def mistakes_in(expression: str) -> Iterator[str]:
    """Yield what is wrong with `cron(...)` or `rate(...)`."""
    if rate := _RATE.fullmatch(expression):
        value, plural = int(rate[1]), rate[3] == "s"
        if value == 0:
            yield "the value must be positive"
        elif (value == 1) == plural:
            yield f"write {'one unit without' if value == 1 else 'several units with'} s"
        elif value * _MINUTES[rate[2]] > _MAX_RATE_DAYS * 1440:
            yield f"is more than {_MAX_RATE_DAYS} days, the most that is allowed here"
    elif call := _CRON.fullmatch(expression):
        yield from _cron_mistakes(call[1].split())
    else:
        yield "write cron(minutes hours day-of-month month day-of-week year) or rate(value unit)"


@cache
def max_gap_minutes(expression: str) -> int | None:
    """Return the longest time between two starts of a right expression; None where it names years.

    Changes of clocks do not count. A gap of up to a year is exact: it lies in three years, and the
    cycle has every row of three years that exists. A longer gap may be even longer around 2100,
    which is no leap year.
    """
    if rate := _RATE.fullmatch(expression):
        return int(rate[1]) * _MINUTES[rate[2]]
    minutes, hours, *days, year = expression.removeprefix("cron(").removesuffix(")").split()
    dates = [moment.toordinal() for moment in _times(["0", "0", *days], _CYCLE)]
    if year != "*" or not dates:
        return None
    new_year = datetime(_CYCLE[0], 1, 1)  # noqa: DTZ001 - any day has the same times
    of_a_day = takewhile(
        lambda moment: moment.date() == new_year.date(),
        _times([minutes, hours, "*", "*", "?"], _CYCLE),
    )
    times = [60 * moment.hour + moment.minute for moment in of_a_day]
    days_apart = max(
        later - earlier for earlier, later in pairwise([*dates, dates[0] + _CYCLE_DAYS])
    )
    return max(
        days_apart * 1440 - times[-1] + times[0],
        *(later - earlier for earlier, later in pairwise(times)),
        0,
    )


def last_year(expression: str) -> int | None:
    """Return the last year in which a right cron expression names a time; None for a rate."""
    call = _CRON.fullmatch(expression)
    return max(_years(call[1].split()[5])) if call else None


def _times(fields: list[str], years: Iterable[int]) -> Iterator[datetime]:
    """Yield the times, without a zone, that the first five fields mean in each of the years.

    Raises CronSimError for fields that it cannot read, or that name a day which no month has.
    """
    for year in years:
        since = datetime(year, 1, 1) - timedelta(seconds=1)  # noqa: DTZ001 - the clock of any zone
        for moment in CronSim(_crontab(fields), since):
            if moment.year != year:
                break
            yield moment


def _crontab(fields: list[str]) -> str:
    """Return the five fields as cron has them: Sunday is 0, and `*` stands for `?`."""
    minutes, hours, days, months, weekdays = fields
    last_is_saturday = re.sub(r"(?<!\w)L", "7", weekdays)
    numbered = re.sub(
        r"(?<![#/\w])[A-Z\d]+?(?=L?\b)",
        lambda day: _DAYS.get(day[0], "unknown"),
        last_is_saturday,
    )
    to_saturday = re.sub(r"(^|,)(\d)/", r"\1\2-6/", numbered)
    return " ".join([minutes, hours, days, months, to_saturday]).replace("?", "*")


def _years(text: str) -> set[int]:
    """Return the years of a field; raise ValueError for one that is wrong."""
    years: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, dash, last = ("1970", "-", "2199") if span == "*" else span.partition("-")
        end = int(last) if dash else 2199 if step else int(first)
        if not _YEARS[0] <= int(first) <= end <= _YEARS[-1]:
            raise ValueError(part)
        years.update(range(int(first), end + 1, int(step or 1)))
    return years


def _cron_mistakes(fields: list[str]) -> Iterator[str]:
    if len(fields) != len(_FIELDS):
        yield f"has {len(fields)} fields; six are needed: {', '.join(name for name, *_ in _FIELDS)}"
        return
    right = (fields[2] == "?") != (fields[4] == "?")
    if not right:
        yield "exactly one of day of month and day of week must be ?"
    for place, (text, (name, values, _)) in enumerate(zip(fields, _FIELDS, strict=True)):
        wrong = [part for part in text.split(",") if not _is_part(part, place)]
        if wrong:
            right = False
            yield f"{name} {wrong[0]!r} is not in {values}"
    _, _, days, months, weekdays, years = fields
    if "#" in weekdays and "," in weekdays:  # EventBridge user guide: "3#1,6#3" is not valid
        right = False
        yield "day of week with # has one expression only"
    # whether right fields mean any time; a year without one costs some milliseconds
    starts = False
    with suppress(CronSimError):
        starts = right and any(_times(["0", "0", *fields[2:5]], sorted(_years(years))))
    if right and not starts:
        of_years = "" if years == "*" else f" of {years}"
        yield (
            f"no month in {months}{of_years} has a day in {weekdays if days == '?' else days}, so"
            " it would never start"
        )


def _is_part(part: str, place: int) -> bool:
    """Return whether `part` is one item of the list in a field: a value, a range or a step."""
    name, _, largest_step = _FIELDS[place]
    if part == "?":
        return name.startswith("day")
    step = part.partition("/")[2]
    if (
        part != part.upper()
        or part.startswith("L/")
        or (step and not (step.isdecimal() and int(step) <= largest_step))
    ):
        return False
    fields = ["*"] * 5
    try:
        if name == "year":
            return bool(_years(part))
        fields[place] = part
        CronSim(_crontab(fields), datetime(2028, 1, 1))  # noqa: DTZ001 - only its form counts
    except (CronSimError, ValueError):
        return False
    return True
