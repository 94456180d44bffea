"""The grammar of event patterns, and arrays of objects in events.

moto takes any pattern below the first level, and a rule with a misspelt operator never fires.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from moto.events.models import EventPattern
from moto.events.utils import EventMessageType

from shoal_local.errors import AwsError
from shoal_local.tables import read_table


def check(text: str) -> None:
    """Raise AwsError InvalidEventPatternException for what is no pattern."""
    try:
        mistake = best_match(_grammar().iter_errors(json.loads(text)))
        reason = f"{mistake.json_path}: {mistake.message}" if mistake else ""
    except (ValueError, RecursionError) as error:
        reason = f"the pattern is not JSON: {error}"
    if reason:
        raise AwsError(
            "InvalidEventPatternException", f"Event pattern is not valid. Reason: {reason}"
        )


@cache
def _grammar() -> Draft202012Validator:
    return Draft202012Validator(read_table(Path(__file__).with_name("event_patterns.yaml")))


def _is_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def matches(pattern: EventPattern, event: Mapping[str, Any]) -> bool:
    """Return whether the event matches.

    Where the pattern has fields below an array of objects, one of the objects must have them all;
    moto matches the array as a value.
    """
    for path in _arrays(pattern.get_pattern(), event):
        return any(matches(pattern, _with(event, path, each)) for each in _at(event, path))
    return pattern.matches_event(cast(EventMessageType, event))


def _arrays(pattern: Mapping[str, Any], event: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the paths of arrays of objects that the pattern goes into."""
    paths: list[tuple[str, ...]] = []
    for name, below in pattern.items():
        value = event.get(name)
        if name == "$or" and _is_objects(below):
            paths.extend(path for alternative in below for path in _arrays(alternative, event))
        elif isinstance(below, dict) and isinstance(value, Mapping):
            paths.extend((name, *path) for path in _arrays(below, value))
        elif isinstance(below, dict) and _is_objects(value):
            paths.append((name,))
    return paths


def _at(event: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        event = event[name]
    return event


def _with(event: Mapping[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    name, *rest = path
    return {**event, name: _with(event[name], tuple(rest), value) if rest else value}
