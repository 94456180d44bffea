"""The gates of an execution: what its evaluation measured, and what it had to reach."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from shoal.aws.execution import Execution, definition_of, given_parameters
from shoal.aws.target import Target
from shoal.errors import ShoalError
from shoal.page.readings.report import evaluation_of
from shoal.pipelines import step_names

_WORDS = {"GreaterThanOrEqualTo": "at least", "LessThanOrEqualTo": "at most"}
_METRIC = re.compile(r"metrics\.(\w+)\.value")
_MARGIN = re.compile(r"Steps\.[\w-]+\.OutputParameters\['margin_of_(\w+)'\]")


@dataclass(frozen=True)
class GateResult:
    """One condition of the step Gate."""

    metric: str
    limit: str
    """As in `at least 0.98`, or `at least 0.97 (version 3, approved, has 0.98)`."""
    value: int | float | None
    """None where the report cannot be read."""
    passed: bool | None = None
    """None where it is not known."""

    def __str__(self) -> str:
        value = "not readable" if self.value is None else format(self.value, "g")
        return f"{self.metric} {value}, must be {self.limit}"


def gates_of(target: Target, execution: Execution) -> tuple[GateResult, ...]:
    """Return the gates that the execution has come to, as it was started.

    Empty before that, and for a pipeline of the user's own that has no such step.
    """
    if execution.step(step_names.GATE) is None:
        return ()
    client = target.client("sagemaker")
    definition = definition_of(client, execution.arn)
    # whether AWS lists those that nobody gave a value is not documented
    parameters = {
        each["Name"]: str(each["DefaultValue"])
        for each in definition.get("Parameters", ())
        if "DefaultValue" in each
    }
    parameters |= given_parameters(client, execution.arn)
    metrics = _metrics(target, execution)
    return tuple(
        _fixed(metric, word, parameters.get(parameter), metrics.get(metric))
        if word
        else _compared(execution, metric, metrics.get(metric))
        for metric, word, parameter in conditions(definition)
    )


def _fixed(metric: str, word: str, limit: str | None, value: float | None) -> GateResult:
    """Return a gate whose limit is a parameter's value."""
    passed = None
    if value is not None and limit is not None:
        with suppress(ValueError):
            passed = value >= float(limit) if word == "at least" else value <= float(limit)
    return GateResult(metric, f"{word} {limit or '?'}", value, passed)


def _compared(execution: Execution, metric: str, value: float | None) -> GateResult:
    """Return a gate whose limit the step Compare computed: it judged, and rounds what it says."""
    step = execution.step(step_names.COMPARE)
    limit, reason, margin = (
        step.output(f"{part}_of_{metric}") if step else None
        for part in ("limit", "reason", "margin")
    )
    passed = None if margin is None else float(margin) >= 0
    return GateResult(metric, f"{limit} ({reason})", value, passed)


def _metrics(target: Target, execution: Execution) -> Mapping[str, int | float]:
    """Return nothing where the report is gone, malformed, or not to be read by these credentials:
    the status of an execution is more than its gates.
    """
    try:
        return evaluation_of(target, execution).metrics
    except (ClientError, ShoalError, ValueError):
        return {}


def conditions(definition: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield metric, comparison in words and parameter of each condition that has Shoal's form.

    Words and parameter are empty for a comparison with the approved version.
    """
    steps = {step["Name"]: step for step in definition.get("Steps", [])}
    for condition in steps.get(step_names.GATE, {}).get("Arguments", {}).get("Conditions", []):
        left, right = condition.get("LeftValue"), condition.get("RightValue")
        path = left.get("Std:JsonGet", {}).get("Path", "") if isinstance(left, dict) else ""
        parameter = right.get("Get", "") if isinstance(right, dict) else ""
        if isinstance(left, dict) and (margin := _MARGIN.fullmatch(left.get("Get", ""))):
            yield margin[1], "", ""
            continue
        metric = _METRIC.fullmatch(path)
        if metric and parameter and condition["Type"] in _WORDS:
            yield metric[1], _WORDS[condition["Type"]], parameter.removeprefix("Parameters.")
