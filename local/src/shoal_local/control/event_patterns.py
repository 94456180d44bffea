"""The grammar of event patterns, and arrays of objects in events.

moto takes any pattern below the first level, and a rule with a misspelt operator never fires. The
grammar is that of EventBridge's user guide ("Event patterns"), the words are answers of AWS that
LocalStack recorded (`test_events_patterns.snapshot.json` of its repository). Not here: "Rule is too
complex", which EventBridge says of some patterns with several wildcards.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from moto.events.models import EventPattern
from moto.events.utils import EventMessageType

from shoal_local.errors import AwsError

_COMPARISONS = ("=", "<", "<=", ">", ">=")


class PatternError(ValueError):
    """A pattern is not valid; `str()` is EventBridge's reason."""


def check(text: str) -> None:
    """Raise AwsError InvalidEventPatternException for what is no pattern."""
    try:
        check_object(json.loads(text))
    except PatternError as error:
        reason = str(error)
    except (ValueError, RecursionError) as error:
        reason = f"the pattern is not JSON: {error}"
    else:
        return
    raise AwsError("InvalidEventPatternException", f"Event pattern is not valid. Reason: {reason}")


def check_object(pattern: Any) -> None:
    """Raise PatternError unless each field has an array of filters, or an object of fields."""
    if not isinstance(pattern, dict):
        raise PatternError("Filter is not an object")
    for name, value in pattern.items():
        if name == "$or" and _is_objects(value):
            for alternative in value:
                check_object(alternative)
        elif isinstance(value, dict):
            _require(value, "Empty objects are not allowed")
            check_object(value)
        elif isinstance(value, list):
            _require(value, "Empty arrays are not allowed")
            for filter_ in value:
                _check_filter(filter_)
        else:
            raise PatternError(f'"{name}" must be an object or an array')


def _require(condition: object, reason: str) -> None:
    if not condition:
        raise PatternError(reason)


def _is_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def _check_filter(filter_: Any) -> None:
    _require(
        not isinstance(filter_, list), "Match value must be String, number, true, false, or null"
    )
    if isinstance(filter_, dict):
        _require(len(filter_) == 1, "Only one key allowed in match expression")
        ((operator, value),) = filter_.items()
        if operator not in _OPERATORS:
            raise PatternError(f"Unrecognized match type {operator}")
        _OPERATORS[operator](value)


def _exists(value: Any) -> None:
    _require(isinstance(value, bool), "exists match pattern must be either true or false.")


def _text(operator: str) -> Callable[[Any], None]:
    def check_value(value: Any) -> None:
        _require(isinstance(value, str), f"{operator} match pattern must be a string")

    return check_value


def _beginning_or_end(operator: str) -> Callable[[Any], None]:
    def check_value(value: Any) -> None:
        if isinstance(value, dict) and value.keys() == {"equals-ignore-case"}:
            value = value["equals-ignore-case"]
        _text(operator)(value)

    return check_value


def _wildcard(value: Any) -> None:
    _text("wildcard")(value)
    unescaped = value.replace("\\\\", "").replace("\\*", "")
    _require("**" not in unescaped, f"Consecutive wildcard characters at pos {value.find('**')}")


def _cidr(value: Any) -> None:
    _text("prefix")(value)
    address, *bits = value.split("/")
    _require(len(bits) == 1, "Malformed CIDR, one '/' required")
    _require(bits[0].isdecimal(), "Malformed CIDR, mask bits must be an integer")
    try:
        ipaddress.ip_address(address)
    except ValueError:
        raise PatternError(f"Nonstandard IP address: {address}") from None


def _numeric(value: Any) -> None:
    _require(isinstance(value, list), "Value of numeric must be an array.")
    _require(value, "Invalid member in numeric match: ]")
    for operator in value[::2]:
        _require(isinstance(operator, str), f"Invalid member in numeric match: {operator}")
        _require(operator in _COMPARISONS, f"Unrecognized numeric range operator: {operator}")
    for position, operator in enumerate(value[::2]):
        number = value[2 * position + 1] if len(value) > 2 * position + 1 else None
        _require(_is_number(number), f"Value of {operator} must be numeric")
    if len(value) > 2:
        _range(value)


def _range(value: list[Any]) -> None:
    _require(len(value) == 4, "Too many terms in numeric range expression")
    bottom, low, top, high = value
    _require(bottom in {">", ">="}, "Too many elements in numeric expression")
    _require(top in {"<", "<="}, f"Bad numeric range operator: {top}")
    _require(low < high, "Bottom must be less than top")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _anything_but(value: Any) -> None:
    if isinstance(value, dict):
        _require(len(value) == 1, "Only one key allowed in match expression")
        ((operator, excluded),) = value.items()
        if operator not in _EXCLUDING:
            raise PatternError(f"Unsupported anything-but pattern: {operator}")
        _excluded(operator, excluded)
        return
    is_value = isinstance(value, str | list) or _is_number(value)
    _require(is_value, "Value of anything-but must be an array or single string/number value.")
    if isinstance(value, list):
        _require(value, "Empty arrays are not allowed")
        simple = all(isinstance(each, str) or _is_number(each) for each in value)
        _require(simple, "Inside anything but list, start|null|boolean is not supported.")


def _excluded(operator: str, value: Any) -> None:
    _require(
        not isinstance(value, dict),
        "Value of anything-but must be an array or single string/number value.",
    )
    values = value if isinstance(value, list) else [value]
    _require(all(isinstance(each, str) for each in values), _EXCLUDING[operator])
    if operator in {"prefix", "suffix"}:
        _require(all(values), "Null prefix/suffix not allowed")


_OPERATORS: Mapping[str, Callable[[Any], None]] = {
    "exists": _exists,
    "prefix": _beginning_or_end("prefix"),
    "suffix": _beginning_or_end("suffix"),
    "equals-ignore-case": _text("equals-ignore-case"),
    "wildcard": _wildcard,
    "cidr": _cidr,
    "numeric": _numeric,
    "anything-but": _anything_but,
}
_EXCLUDING: Mapping[str, str] = {
    "prefix": "prefix/suffix match pattern must be a string",
    "suffix": "prefix/suffix match pattern must be a string",
    "wildcard": "wildcard match pattern must be a string",
    "equals-ignore-case": "Inside anything-but/equals-ignore-case list,"
    " number|start|null|boolean is not supported.",
}
"""What `anything-but` may have inside, and what is said of a value that is no text."""


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
