"""Schedule expressions of EventBridge and its Scheduler, which CloudFormation checks only when it creates them.

Source: Amazon EventBridge user guide, "Setting a schedule pattern"; EventBridge Scheduler user guide, "Schedule types".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from stacks.validation.findings import Finding, Template, resources

EXPRESSION = "SHOAL-ScheduleExpression"
_TYPES = {"AWS::Events::Rule": False, "AWS::Scheduler::Schedule": True}
"""Type -> whether it takes at(...)."""
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
_RATE = re.compile(r"rate\((\d+) (minutes?|hours?|days?)\)")
_CALL = re.compile(r"(cron|at)\(([^()]*)\)")


def check(template: Template) -> Iterator[Finding]:
    """Every schedule expression of the template that is none."""
    for resource_type, takes_at in _TYPES.items():
        for logical_id, properties in resources(template, resource_type):
            expression = properties.get("ScheduleExpression")
            if isinstance(expression, str):
                for mistake in mistakes_in(expression, takes_at=takes_at):
                    yield Finding(EXPRESSION, logical_id, f"{expression}: {mistake}")


def mistakes_in(expression: str, *, takes_at: bool) -> Iterator[str]:
    """What is wrong with `cron(...)`, `rate(...)` or, where it `takes_at`, `at(...)`."""
    if rate := _RATE.fullmatch(expression):
        yield from _rate_mistakes(int(rate[1]), rate[2])
        return
    call = _CALL.fullmatch(expression)
    if call is None or (call[1] == "at" and not takes_at):
        yield "write cron(minutes hours day-of-month month day-of-week year) or rate(value unit)"
    elif call[1] == "at":
        yield from _time_mistakes(call[2])
    else:
        yield from _cron_mistakes(call[2].split())


def _rate_mistakes(value: int, unit: str) -> Iterator[str]:
    if value == 0:
        yield "the value must be positive"
    elif (value == 1) == unit.endswith("s"):
        yield f"write {'one unit without' if value == 1 else 'several units with'} s"


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
    for text, (name, low, high, words) in zip(fields, _FIELDS, strict=True):
        wrong = [part for part in text.split(",") if not _is_part(part, name, low, high, words)]
        if wrong:
            yield f"{name} {wrong[0]!r} is not in {low} to {high}{' or ' + words[0] + ' to ' + words[-1] if words else ''}"


def _is_part(part: str, name: str, low: int, high: int, words: list[str]) -> bool:
    """One item of a field's list: a value, a range or a step, and what only days know (L, W, #, ?)."""
    if name == "day of month" and (part in ("?", "L", "LW") or re.fullmatch(r"([1-9]|[12]\d|3[01])W", part)):
        return True
    if name == "day of week" and (part in ("?", "L") or re.fullmatch(r"([1-7]|SUN|MON|TUE|WED|THU|FRI|SAT)(L|#[1-5])", part)):
        return True
    span, slash, step = part.partition("/")
    if slash and not (step.isdecimal() and int(step) > 0):
        return False
    if span == "*":
        return True
    numbers = [_number(text, low, words) for text in span.split("-")]
    return len(numbers) <= 2 and all(number is not None and low <= number <= high for number in numbers)


def _number(text: str, low: int, words: list[str]) -> int | None:
    if text in words:
        return words.index(text) + low
    return int(text) if text.isdecimal() else None
