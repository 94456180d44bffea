"""The gate: values, conditions, comparison with the newest approved version, and messages."""

from collections.abc import Mapping
from typing import Any, Literal

from shoal.pipelines import step_names
from shoal.pipelines.expressions import Join, Parameter, PropertyFile
from shoal.pipelines.graph import Infrastructure, Parameters
from shoal.pipelines.requests import NOT_WORSE, compared, limit_of
from shoal.pipelines.steps import (
    GreaterThanOrEqualTo,
    Lambda,
    LessThanOrEqualTo,
    Processing,
    ReportFile,
)
from shoal.settings.names import Names
from shoal.settings.sections.evaluation import Bound
from shoal.settings.settings import Environment


def measured_values(
    parameters: Parameters, evaluate: Processing, report: ReportFile
) -> dict[Bound, PropertyFile]:
    """Return for each gate where in the evaluation's report its value stands."""
    return {
        bound: PropertyFile(evaluate.name, report.name, f"metrics.{bound.metric}.value")
        for bound in parameters.gates
    }


def condition(
    bound: Bound, value: PropertyFile, limit: Parameter
) -> GreaterThanOrEqualTo | LessThanOrEqualTo:
    """Return what must hold for `value` to pass the gate `bound`."""
    if bound.kind == NOT_WORSE:
        return GreaterThanOrEqualTo(compared(bound, "margin"), 0.0)
    return (GreaterThanOrEqualTo if bound.kind == "at least" else LessThanOrEqualTo)(value, limit)


def compare_step(
    environment: Environment,
    infrastructure: Infrastructure,
    parameters: Parameters,
    measured: Mapping[Bound, PropertyFile],
) -> tuple[Lambda, ...]:
    """Return the step that reads the registry; none without a gate that needs it."""
    arguments: dict[str, Any] = {}
    outputs: dict[str, Literal["String", "Float"]] = {"status": "String", "version": "String"}
    better = environment.compared_metrics
    for bound, value in measured.items():
        if bound.kind == NOT_WORSE:
            arguments[f"value_of_{bound.metric}"] = value
            arguments[f"direction_of_{bound.metric}"] = str(better[bound.metric])
            arguments[f"tolerance_of_{bound.metric}"] = parameters.gates[bound]
            outputs[f"margin_of_{bound.metric}"] = "Float"
            texts = ("value", "limit", "reason")
            outputs |= {f"{text}_of_{bound.metric}": "String" for text in texts}
    if not arguments:
        return ()
    group = {"model_package_group_name": Names(environment).model_package_group}
    step = Lambda(
        step_names.COMPARE,
        group | arguments,
        function_arn=str(infrastructure.compare_function_arn),
        outputs=outputs,
    )
    return (step,)


def failure_message(parameters: Parameters, measured: Mapping[Bound, PropertyFile]) -> Join:
    """Return the sentence that has the value and the limit of every gate."""
    parts: list[Any] = ["The model does not pass its gates: "]
    for bound, value in measured.items():
        words, limit = limit_of(bound, parameters)
        parts += [f"{bound.metric} is ", value, f" and must be {words}", limit]
        if bound.kind == NOT_WORSE:
            parts += [" (", compared(bound, "reason"), ")"]
        parts.append("; ")
    return Join("", tuple(parts[:-1]))
