"""Regular expressions that may take for ever: a repeat of what is itself long, or two things.

One text can then be divided in many ways, and Python's `re` tries all of them: `([0-9]+)+$` took
5 s for 26 digits here, and twice as long for each further one.
"""

from __future__ import annotations

from collections.abc import Iterator
from re import _parser  # type: ignore[attr-defined]
from typing import Any

_REPEATS = ("MAX_REPEAT", "MIN_REPEAT")
_MANY = 20


def explodes(expression: str) -> bool:
    """Return whether a valid expression repeats, many times, what can have several lengths."""
    return any(_repeated(_parser.parse(expression), is_repeated=False))


def _repeated(items: Any, *, is_repeated: bool) -> Iterator[bool]:
    """Yield, for each part, whether it is within a repeat and can be read in several ways."""
    for operator, argument in items:
        name, is_many = str(operator), is_repeated
        parts = []
        if name in _REPEATS:
            low, high, body = argument
            yield is_repeated and low != high
            is_many, parts = is_repeated or high >= _MANY, [body]
        elif name == "BRANCH":
            yield is_repeated
            parts = argument[1]
        elif name in ("SUBPATTERN", "ASSERT", "ASSERT_NOT"):
            parts = [argument[-1]]
        for part in parts:
            yield from _repeated(part, is_repeated=is_many)
