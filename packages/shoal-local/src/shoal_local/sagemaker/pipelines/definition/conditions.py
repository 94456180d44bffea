"""The conditions of a Condition step: which there are, and whether they hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shoal_local.sagemaker.errors import not_emulated
from shoal_local.sagemaker.pipelines.definition.expressions import ExpressionError
from shoal_local.sagemaker.shapes import Document

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "Equals": lambda left, right: left == right,
    "NotEquals": lambda left, right: left != right,
    "GreaterThan": lambda left, right: left > right,
    "GreaterThanOrEqualTo": lambda left, right: left >= right,
    "LessThan": lambda left, right: left < right,
    "LessThanOrEqualTo": lambda left, right: left <= right,
}


def check_condition(condition: Document, step: str) -> None:
    """Raise AwsError for a condition of a type that is not emulated."""
    kind = condition["Type"]
    inner = {"Or": condition.get("Conditions", []), "Not": [condition.get("Expression", {})]}
    if kind not in _COMPARISONS and kind not in {"In", "NotIn", *inner}:
        raise not_emulated(f"the condition type {kind!r} of step {step}")
    for each in inner.get(kind, ()):
        check_condition(each, step)


def holds(condition: Document, resolve: Callable[[Any], Any]) -> bool:
    """Return whether a condition is true.

    Raise ExpressionError if its values cannot be compared or read.
    """
    kind = condition["Type"]
    if kind == "Not":
        return not holds(condition["Expression"], resolve)
    if kind == "Or":
        return any(holds(each, resolve) for each in condition["Conditions"])
    if kind in {"In", "NotIn"}:
        is_member = resolve(condition["QueryValue"]) in [
            resolve(each) for each in condition["Values"]
        ]
        return is_member is (kind == "In")
    left, right = resolve(condition["LeftValue"]), resolve(condition["RightValue"])
    try:
        return _COMPARISONS[kind](left, right)
    except TypeError:
        raise ExpressionError(f"{kind} cannot compare {left!r} with {right!r}") from None
