"""Schedule expressions, the times that they mean in a time zone, and the clock by which they are
due.

`rate(...)` and `cron(...)` are read, but for days like 15W, which the package cronsim lacks.
One-time schedules, `at(...)`, are refused by name. Source: EventBridge Scheduler user guide,
"Schedule types" (a time that a change of clocks skips is skipped, one that it repeats is taken
once).
"""

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

DAYS = {
    text: str(number)
    for number, name in enumerate(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"))
    for text in (name, str(number + 1))
}
"""As EventBridge writes a day of the week -> as cron does."""
LAST_YEAR = 2199
MINUTES = {"minute": 1, "hour": 60, "day": 1440}
MAX_DAYS = 3650
"""Shoal's own limit: AWS's pages give none."""
_SECOND = timedelta(seconds=1)
RATE = re.compile(r"rate\((?P<number>[1-9][0-9]*) (?P<unit>minute|hour|day)(?P<plural>s?)\)")
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
    """A crontab line of five fields, and the years in which it counts."""

    crontab: str
    years: list[int]
    """In ascending order."""
    zone: ZoneInfo

    def next(self, since: datetime, after: datetime) -> datetime | None:
        """Return the first time from `since` on that is later than `after`; None without one."""
        earliest = max(since - timedelta(microseconds=1), after)
        clock = earliest.astimezone(self.zone).replace(tzinfo=None, fold=0)
        for year in self.years:
            if year < clock.year:
                continue
            for moment in CronSim(self.crontab, max(clock, datetime(year, 1, 1) - _SECOND)):  # noqa: DTZ001 - the clock of the zone
                if moment.year != year:
                    break
                due_at = moment.replace(tzinfo=self.zone).astimezone(UTC)
                shown_by_clocks = (
                    due_at.astimezone(self.zone).replace(tzinfo=None, fold=0) == moment
                )
                if shown_by_clocks and due_at > earliest:
                    return due_at
        return None


def parse(expression: str, time_zone: str) -> Rate | Cron:
    """Return an expression's times; raise ExpressionError: what is wrong or not emulated."""
    zone = _zone(time_zone)
    rate = RATE.fullmatch(expression)
    # as on AWS, the unit is singular with 1 and plural otherwise
    if rate and (rate["number"] == "1") != bool(rate["plural"]):
        minutes = int(rate["number"]) * MINUTES[rate["unit"]]
        if minutes > MAX_DAYS * MINUTES["day"]:
            raise ExpressionError(f"Invalid Schedule Expression {expression}. It is too long.")
        return Rate(timedelta(minutes=minutes))
    match = CRON.fullmatch(expression)
    fields = match[1].split() if match else []
    if len(fields) != 6 or (fields[2] == "?") == (fields[4] == "?"):
        raise ExpressionError(
            f"Invalid Schedule Expression {expression}. Shoal's emulator has rate(...) and"
            " cron(...)"
        )
    try:
        crontab = _crontab(fields[:5])
        CronSim(crontab, datetime(2028, 1, 1))  # noqa: DTZ001 - only its form counts
        return Cron(crontab, sorted(_years(fields[5])), zone)
    except (CronSimError, ValueError) as error:
        raise ExpressionError(f"Invalid Schedule Expression {expression}. {error}") from error


def _crontab(fields: list[str]) -> str:
    """Return the five fields as cron has them: Sunday is 0, and `*` stands for `?`."""
    minutes, hours, days, months, weekdays = fields
    last_is_saturday = re.sub(r"(?<!\w)L", "7", weekdays)
    numbered = re.sub(
        r"(?<![#/\w])[A-Z\d]+?(?=L?\b)",
        lambda day: DAYS.get(day[0], "unknown"),
        last_is_saturday,
    )
    to_saturday = re.sub(r"(^|,)(\d)/", r"\1\2-6/", numbered)
    return " ".join([minutes, hours, days, months, to_saturday]).replace("?", "*")


def _years(text: str) -> set[int]:
    """Return the years of a field; raise ValueError for one that is wrong."""
    years: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, dash, last = ("1970", "-", str(LAST_YEAR)) if span == "*" else span.partition("-")
        end = int(last) if dash else LAST_YEAR if step else int(first)
        if not 1970 <= int(first) <= end <= LAST_YEAR:
            raise ValueError(f"{part} is not in 1970 to {LAST_YEAR}")
        years.update(range(int(first), end + 1, int(step or 1)))
    return years


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ValueError, KeyError, OSError) as error:
        raise ExpressionError(f"Invalid Schedule Expression Timezone {name}.") from error


POLL_S = 0.25


class Clock:
    """A clock `speed` times as fast as the machine's; until it is closed, it calls `look(now)`."""

    def __init__(self, look: Callable[[datetime], object], speed: float, name: str) -> None:
        self._look, self._speed = look, speed
        self._began_at, self._began_s = datetime.now(UTC), time.monotonic()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name=name)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Look no more, and wait for the last look."""
        self._closing.set()
        self._thread.join()

    def now(self) -> datetime:
        return self._began_at + timedelta(seconds=(time.monotonic() - self._began_s) * self._speed)

    def of(self, timestamp: float) -> datetime:
        """Return an instant of the machine's clock on this one."""
        passed = datetime.fromtimestamp(timestamp, UTC) - self._began_at
        return self._began_at + passed * self._speed

    def _run(self) -> None:
        while not self._closing.wait(POLL_S):
            self._look(self.now())
