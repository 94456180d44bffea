"""The JSON structure of a definition: lists are lists, objects are objects, names are text.

What the values mean is checked elsewhere, and those checks rely on this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal_local.sagemaker.errors import unparsable

MAX_DEPTH = 200
"""Levels of lists and objects: 50 steps, each in a branch of the one before, need 150."""
_NUMBER = (int, float)
_DEPENDENCY: Mapping[str, Any] = {"Step": str, "Trigger": str}
_RETRY: Mapping[str, Any] = {
    "ExceptionType": [str],
    "IntervalSeconds": _NUMBER,
    "BackoffRate": _NUMBER,
    "MaxAttempts": int,
    "ExpireAfterMin": _NUMBER,
    "FailureReason": (str, dict),
}
_STEP: Mapping[str, Any] = {
    "Name": str,
    "Type": str,
    "Arguments": dict,
    "DisplayName": str,
    "Description": str,
    "FunctionArn": (str, dict),
    "SqsQueueUrl": (str, dict),
    "DependsOn": [(str, _DEPENDENCY)],
    "RetryPolicies": [_RETRY],
    "CacheConfig": {"Enabled": bool, "ExpireAfter": str},
    "PropertyFiles": [{"PropertyFileName": str, "OutputName": str, "FilePath": str}],
    "OutputParameters": [{"OutputName": str, "OutputType": str}],
}
_REQUIRED: Mapping[int, tuple[str, ...]] = {
    id(_DEPENDENCY): ("Step", "Trigger"),
    id(_RETRY): ("ExceptionType",),
    id(_STEP["PropertyFiles"][0]): ("PropertyFileName", "OutputName", "FilePath"),
    id(_STEP["OutputParameters"][0]): ("OutputName", "OutputType"),
}
_PARAMETER: Mapping[str, Any] = {"Name": str, "Type": str, "EnumValues": list}
_DEFINITION: Mapping[str, Any] = {"Parameters": [_PARAMETER], "Steps": [_STEP]}
_WORDS = {
    str: "text",
    dict: "an object",
    list: "a list",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


def check_structure(document: Any) -> None:
    """Raise ValidationException, with the path, for a definition that is not built like one."""
    check_depth(document)
    _check(document, _DEFINITION, "the definition")


def check_steps(steps: Any, where: str) -> None:
    """Raise ValidationException for steps of a branch that are not built like steps."""
    _check(steps, [_STEP], where)


def check_depth(document: Any) -> None:
    """Raise ValidationException for a document that is nested too deep.

    This does not recurse: the document may be nested without end.
    """
    level = [document]
    for _ in range(MAX_DEPTH):
        level = [member for value in level for member in _members(value)]
        if not level:
            return
    raise unparsable(f"It is nested more than {MAX_DEPTH} levels deep")


def _members(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _check(value: Any, expected: Any, where: str) -> None:
    if isinstance(expected, list):
        _require(isinstance(value, list), where, "a list", value)
        for position, member in enumerate(value):
            _check(member, expected[0], f"{where}[{position}]")
    elif isinstance(expected, Mapping):
        _require(isinstance(value, dict), where, "an object", value)
        for name in _REQUIRED.get(id(expected), ()):
            _require(name in value, f"{where}.{name}", "there", None)
        for name in expected.keys() & value.keys():
            _check(value[name], expected[name], f"{where}.{name}")
    elif isinstance(expected, tuple) and any(isinstance(each, Mapping) for each in expected):
        plain, structured = expected
        if not isinstance(value, plain):
            _check(value, structured, where)
    else:
        kinds = expected if isinstance(expected, tuple) else (expected,)
        has_kind = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
        _require(has_kind, where, " or ".join(_WORDS[kind] for kind in kinds), value)


def _require(condition: bool, where: str, kind: str, value: Any) -> None:
    if not condition:
        text = repr(value) if len(repr(value)) <= 100 else repr(value)[:100] + "..."
        raise unparsable(f"{where} must be {kind}, not {text}")
