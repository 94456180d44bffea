"""What must hold of an answer: JMESPath expressions, each with what its value must be.

The keys of an expectation are `equals`; `near` with `within` or `within_percent`; `at_least` and
`at_most`. jmespath comes with boto3, which needs it; "The Lambda Python runtimes include the AWS
SDK for Python (Boto3) and its dependencies" (Lambda developer guide, "Working with .zip file
archives for Python Lambda functions"; read).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

_MAX_VALUE = 60


def violations(expectations: Mapping[str, Mapping[str, Any]], answer: Any) -> Iterator[str]:
    """Yield a sentence for each expectation that does not hold of the answer."""
    for expression, expected in expectations.items():
        try:
            value = jmespath.search(expression, answer)
        except JMESPathError as error:
            yield f"{expression} has no value: {_short(str(error))}"
            continue
        if not _holds(value, expected):
            yield f"{expression} is {_short(json.dumps(value))}, must be {_in_words(expected)}"


def _holds(value: Any, expected: Mapping[str, Any]) -> bool:
    if "equals" in expected:
        return json.dumps(_plain(value)) == json.dumps(_plain(expected["equals"]))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if "near" in expected:
        return bool(abs(value - expected["near"]) <= _tolerance(expected))
    return bool(
        expected.get("at_least", float("-inf")) <= value <= expected.get("at_most", float("inf"))
    )


def _plain(value: Any) -> Any:
    """Return the value with 7 and 7.0 as one number, and the keys of objects in order."""
    if isinstance(value, dict):
        return {key: _plain(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _tolerance(expected: Mapping[str, Any]) -> float:
    if "within" in expected:
        return float(expected["within"])
    return float(abs(expected["near"]) * expected["within_percent"] / 100)


def _in_words(expected: Mapping[str, Any]) -> str:
    if "equals" in expected:
        return _short(json.dumps(expected["equals"]))
    if "near" in expected:
        by = f"{expected['within_percent']:g}%" if "within_percent" in expected else None
        return f"within {by or format(expected['within'], 'g')} of {expected['near']:g}"
    words = {"at_least": "at least", "at_most": "at most"}
    return " and ".join(f"{words[key]} {expected[key]:g}" for key in words if key in expected)


def _short(text: str) -> str:
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 3]}..."
