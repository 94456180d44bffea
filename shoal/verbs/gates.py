"""The gates of an execution: what its evaluation measured, and what it had to reach."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from shoal.verbs.errors import ShoalError
from shoal.verbs.execution import Execution
from shoal.verbs.report import evaluation_of
from shoal.verbs.target import Target

_GATE = "Gate"
_WORDS = {"GreaterThanOrEqualTo": "at least", "LessThanOrEqualTo": "at most"}
_METRIC = re.compile(r"metrics\.(\w+)\.value")
_COMPARE = "Compare"
_MARGIN = re.compile(rf"Steps\.{_COMPARE}\.OutputParameters\['margin_of_(\w+)'\]")


@dataclass(frozen=True)
class GateResult:
    """One condition of the step Gate."""

    metric: str
    limit: str
    """As in `at least 0.98`, or `at least 0.97 (version 3, approved, has 0.98)`."""
    value: int | float | None
    """None where the report cannot be read."""

    def __str__(self) -> str:
        value = "not readable" if self.value is None else format(self.value, "g")
        return f"{self.metric} {value}, must be {self.limit}"


def gates_of(target: Target, execution: Execution) -> tuple[GateResult, ...]:
    """Return the gates that the execution has come to, as it was started.

    Empty before that, and for a pipeline of the user's own that has no such step.
    """
    if execution.step(_GATE) is None:
        return ()
    client, request = target.client("sagemaker"), {"PipelineExecutionArn": execution.arn}
    definition = json.loads(
        client.describe_pipeline_definition_for_execution(**request)["PipelineDefinition"]
    )
    pages = client.get_paginator("list_pipeline_parameters_for_execution").paginate(**request)
    # whether AWS lists those that nobody gave a value is not documented
    parameters = {
        each["Name"]: str(each["DefaultValue"])
        for each in definition.get("Parameters", ())
        if "DefaultValue" in each
    }
    parameters |= {
        each["Name"]: str(each["Value"]) for page in pages for each in page["PipelineParameters"]
    }
    metrics = _metrics(target, execution)
    return tuple(
        GateResult(
            metric,
            f"{word} {parameters.get(parameter, '?')}" if word else _compared(execution, metric),
            metrics.get(metric),
        )
        for metric, word, parameter in conditions(definition)
    )


def _compared(execution: Execution, metric: str) -> str:
    """Return the limit that the step Compare computed, and from what."""
    step = execution.step(_COMPARE)
    limit, reason = (
        step.output(f"{part}_of_{metric}") if step else None for part in ("limit", "reason")
    )
    return f"{limit} ({reason})"


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
    for condition in steps.get(_GATE, {}).get("Arguments", {}).get("Conditions", []):
        left, right = condition.get("LeftValue"), condition.get("RightValue")
        path = left.get("Std:JsonGet", {}).get("Path", "") if isinstance(left, dict) else ""
        parameter = right.get("Get", "") if isinstance(right, dict) else ""
        if isinstance(left, dict) and (margin := _MARGIN.fullmatch(left.get("Get", ""))):
            yield margin[1], "", ""
            continue
        metric = _METRIC.fullmatch(path)
        if metric and parameter and condition["Type"] in _WORDS:
            yield metric[1], _WORDS[condition["Type"]], parameter.removeprefix("Parameters.")
