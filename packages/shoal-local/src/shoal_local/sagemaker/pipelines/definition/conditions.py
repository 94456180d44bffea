"""The conditions of a Condition step: which there are, and whether they hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shoal_local.sagemaker.errors import invalid, not_emulated
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
_FIELDS: Mapping[str, set[str]] = {
    **{kind: {"Type", "LeftValue", "RightValue"} for kind in _COMPARISONS},
    "In": {"Type", "QueryValue", "Values"},
    "NotIn": {"Type", "QueryValue", "Values"},
    "Not": {"Type", "Expression"},
    "Or": {"Type", "Conditions"},
}


def check_condition(condition: Any, step: str) -> None:
    """Raise AwsError for a condition that is not emulated or not well formed."""
    kind = str(condition.get("Type")) if isinstance(condition, dict) else "none"
    if kind not in _FIELDS:
        raise not_emulated(f"the condition type {kind!r} of step {step}")
    if set(condition) != _FIELDS[kind]:
        raise invalid(
            f"Condition {kind} of step {step} has the fields {sorted(condition)}; it needs"
            f" {sorted(_FIELDS[kind])}"
        )
    list_field = "Conditions" if kind == "Or" else "Values" if kind in {"In", "NotIn"} else None
    if list_field and not isinstance(condition[list_field], list):
        raise invalid(f"Condition {kind} of step {step}: {list_field} must be a list")
    for inner in condition.get("Conditions", [condition["Expression"]] if kind == "Not" else []):
        check_condition(inner, step)


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
