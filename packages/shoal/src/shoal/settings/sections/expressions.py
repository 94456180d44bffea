"""Regular expressions that may take for ever: what a repeat matches could be divided in many ways.

Python's `re` then tries all of them, twice as many for each further character (its documentation
calls the remedy "possessive quantifiers"; `([0-9]+)+$` took 5 s for 26 digits here).
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from itertools import combinations
from re import _parser  # type: ignore[attr-defined]
from typing import Any

_REPEATS = ("MAX_REPEAT", "MIN_REPEAT")
_MANY = 20
_ALL = frozenset(map(chr, range(128)))
_CATEGORIES = {
    "DIGIT": frozenset(string.digits),
    "SPACE": frozenset(string.whitespace),
    "WORD": frozenset(string.ascii_letters + string.digits + "_"),
}


def explodes(expression: str) -> bool:
    """Return whether a valid expression has a repeat of what can itself be long or two things, with
    nothing between that says where one ends.
    """
    return any(_is_ambiguous(body) for body in _bodies(_parser.parse(expression)))


def _bodies(items: Any) -> Iterator[Any]:
    """Yield what each repeat without a low limit repeats."""
    for operator, argument in items:
        for part in _parts(str(operator), argument):
            if str(operator) in _REPEATS and argument[1] >= _MANY:
                yield part
            yield from _bodies(part)


def _parts(operator: str, argument: Any) -> list[Any]:
    if operator in (*_REPEATS, "POSSESSIVE_REPEAT"):
        return [argument[2]]
    if operator == "SUBPATTERN":
        return [argument[3]]
    if operator == "BRANCH":
        return list(argument[1])
    if operator in ("ASSERT", "ASSERT_NOT"):
        return [argument[1]]
    return [argument] if operator == "ATOMIC_GROUP" else []


def _is_ambiguous(body: Any) -> bool:
    """Return whether one text could be divided into several repeats of `body` in several ways."""
    items, is_optional = _flat(body), False
    for operator, argument in items:
        if str(operator) == "BRANCH":
            firsts = [_characters(part[0]) for part in map(_flat, argument[1]) if part]
            overlap = any(one & other for one, other in combinations(firsts, 2))
            if overlap or len(argument[1]) - len(firsts) > 1:
                return True
            is_optional |= len(firsts) < len(argument[1])
    for index, item in enumerate(items):
        others = map(_characters, (*items[:index], *items[index + 1 :]))
        is_single = str(item[0]) not in (*_REPEATS, "BRANCH")
        if is_single and not _characters(item) & frozenset[str]().union(*others):
            return False  # it stands between any two repeats
    repeats = (argument for operator, argument in items if str(operator) in _REPEATS)
    return is_optional or any(argument[1] > argument[0] for argument in repeats)


def _flat(items: Any) -> list[Any]:
    """Return the items without the groups around them, and without what has no width."""
    flat = list[Any]()
    for operator, argument in items:
        if str(operator) == "SUBPATTERN":
            flat += _flat(argument[3])
        elif str(operator) not in ("AT", "ASSERT", "ASSERT_NOT"):
            flat.append((operator, argument))
    return flat


def _characters(item: Any) -> frozenset[str]:
    """Return the ASCII characters that an item can have in it."""
    operator, argument = str(item[0]), item[1]
    if operator == "LITERAL":
        return frozenset({chr(argument)})
    if operator == "NOT_LITERAL":
        return _ALL - {chr(argument)}
    if operator == "RANGE":
        return frozenset(map(chr, range(argument[0], min(argument[1], 127) + 1)))
    if operator == "CATEGORY":
        name = str(argument).removeprefix("CATEGORY_")
        known = _CATEGORIES.get(name.removeprefix("NOT_"), _ALL)
        return _ALL - known if name.startswith("NOT_") else known
    if operator == "IN":
        negated = str(argument[0][0]) == "NEGATE"
        members = frozenset().union(*map(_characters, argument[1 if negated else 0 :]))
        return _ALL - members if negated else members
    parts = _parts(operator, argument)
    if not parts:
        return _ALL
    return frozenset().union(*(_characters(each) for part in parts for each in _flat(part)))
