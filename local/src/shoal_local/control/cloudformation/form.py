"""Whether a template's document has the form that whoever reads it relies on: a document in, its
mistakes, one at a time, out.

Source: CloudFormation user guide, "Template anatomy" and "Intrinsic function reference". What a
property may hold is its resource's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

SECTIONS = frozenset(
    {
        "AWSTemplateFormatVersion",
        "Description",
        "Metadata",
        "Parameters",
        "Rules",
        "Mappings",
        "Conditions",
        "Resources",
        "Outputs",
    }
)


def mistakes(document: Mapping[Any, Any]) -> Iterator[str]:
    """RecursionError for a document that is nested deeper than it can be read."""
    unknown = sorted(str(name) for name in document if name not in SECTIONS)
    if unknown:
        yield (
            f"Invalid template property or properties [{', '.join(unknown)}] (Shoal's emulator has"
            " no transforms)"
        )
    for section in ("Parameters", "Rules", "Mappings", "Conditions", "Resources", "Outputs"):
        if not _is_object(document.get(section) or {}):
            yield f"Template format error: [/{section}] must be an object whose keys are text."
            return
    entries = {
        "Parameters": _of_parameter,
        "Rules": _of_rule,
        "Mappings": _of_mapping,
        "Resources": _of_resource,
        "Outputs": _of_output,
    }
    for section, look in entries.items():
        for name, entry in (document.get(section) or {}).items():
            yield from (
                f"Template format error: [/{section}/{name}] {mistake}" for mistake in look(entry)
            )
    yield from (f"Template format error: {mistake}" for mistake in _of_functions(document))


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


def _of_parameter(parameter: Any) -> Iterator[str]:
    if not _is_object(parameter) or not isinstance(parameter.get("Type"), str):
        yield "Every Parameters object must contain a Type member."
    elif not isinstance(parameter.get("AllowedValues", []), list):
        yield "AllowedValues must be a list."
    elif not _is_pattern(parameter.get("AllowedPattern", "")):
        yield "AllowedPattern must be a regular expression."


def _is_pattern(value: Any) -> bool:
    try:
        re.compile(value)
    except (re.error, TypeError, OverflowError, RecursionError):
        return False
    return True


def _of_rule(rule: Any) -> Iterator[str]:
    assertions = rule.get("Assertions") if _is_object(rule) else None
    if not isinstance(assertions, list) or not all(
        _is_object(each) and "Assert" in each for each in assertions
    ):
        yield "Every Rules object must contain Assertions, a list of objects with an Assert member."


def _of_mapping(mapping: Any) -> Iterator[str]:
    if not _is_object(mapping) or not all(_is_object(each) for each in mapping.values()):
        yield "Every Mappings object must contain objects."


def _of_resource(resource: Any) -> Iterator[str]:
    if not _is_object(resource) or not isinstance(resource.get("Type"), str):
        yield "Every Resources object must contain a Type member."
        return
    needed = resource.get("DependsOn") or []
    if not _is_object(resource.get("Properties") or {}):
        yield "Properties must be an object."
    if not isinstance(needed, str) and not (
        isinstance(needed, list) and all(isinstance(each, str) for each in needed)
    ):
        yield "DependsOn must be text or a list of text."
    if not isinstance(resource.get("Condition", ""), str):
        yield "Condition must be text."


def _of_output(output: Any) -> Iterator[str]:
    if not _is_object(output) or "Value" not in output:
        yield "Every Outputs object must contain a Value member."
    elif not isinstance(output.get("Condition", ""), str) or not _is_object(
        output.get("Export") or {}
    ):
        yield "Condition must be text, and Export an object."


def _of_functions(value: Any) -> Iterator[str]:
    """Those that are read before anything is resolved."""
    if isinstance(value, Mapping):
        for key, argument in value.items():
            if key == "Fn::GetAtt" and not _is_attribute(argument):
                yield "Fn::GetAtt must be NAME.ATTRIBUTE or a list of both."
            if key == "Fn::Sub" and not _is_substitution(argument):
                yield "Fn::Sub must be text, or a list of text and an object."
            yield from _of_functions(argument)
    elif isinstance(value, list):
        for item in value:
            yield from _of_functions(item)


def _is_attribute(argument: Any) -> bool:
    return isinstance(argument, str) or (
        isinstance(argument, list) and len(argument) == 2 and isinstance(argument[0], str)
    )


def _is_substitution(argument: Any) -> bool:
    if isinstance(argument, list):
        return len(argument) == 2 and isinstance(argument[0], str) and _is_object(argument[1])
    return isinstance(argument, str)
