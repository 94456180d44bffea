"""The types of a rule, which reads a template (as CloudFormation gets it) and yields findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Template = Mapping[str, Any]


@dataclass(frozen=True)
class Finding:
    """One broken rule, on one resource."""

    rule: str
    logical_id: str
    text: str
    """What is wrong, and what to do."""


Rule = Callable[[Template], Iterator[Finding]]


def resources(template: Template, *types: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield logical id and properties of each resource of these types."""
    for logical_id, resource in template.get("Resources", {}).items():
        if resource["Type"] in types:
            yield logical_id, resource.get("Properties", {})


def as_list(value: Any) -> list[Any]:
    """Return a policy's field, which may be one value or several, as a list."""
    return value if isinstance(value, list) else [value]
