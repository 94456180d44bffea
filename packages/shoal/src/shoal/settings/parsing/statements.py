"""Statements of IAM policies in a table: texts and conditions with {placeholders}."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from string import Formatter
from typing import Any


def filled(texts: str | Sequence[str], values: Mapping[str, Any]) -> list[str]:
    """Return `texts` with {placeholders} filled in; several values give as many texts."""
    results = []
    for text in _as_list(texts):
        placeholders = [name for _, name, _, _ in Formatter().parse(text) if name]
        for chosen in product(*[_as_list(values[name]) for name in placeholders]):
            results.append(text.format_map(dict(zip(placeholders, chosen, strict=True))))
    return results


def conditions(value: Any, values: Mapping[str, Any]) -> Any:
    """Return conditions with their placeholders filled in; one that stands alone is its value."""
    if isinstance(value, Mapping):
        return {key: conditions(inner, values) for key, inner in value.items()}
    if isinstance(value, list):
        return filled(value, values)
    if value is None:
        return None
    alone = re.fullmatch(r"\{(\w+)\}", value)
    return values[alone[1]] if alone else value.format_map(values)


def _as_list(value: Any) -> list[Any]:
    return [*value] if isinstance(value, list | tuple) else [value]
