"""Refuses, when a pipeline is created, step arguments that its run would refuse.

A parameter counts with its default. At a value that only the run knows (another step's output, a
parameter without default) the check of that step ends, because every answer would be a guess. An
image that has no runtime here, or a machine without namespaces, refuses the job, not the pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shoal_local.errors import AwsError
from shoal_local.sagemaker.jobs.processing.processing import check_processing
from shoal_local.sagemaker.jobs.training.training_request import check_training
from shoal_local.sagemaker.jobs.transform.transform import check_transform
from shoal_local.sagemaker.jobs.tuning.tuning import check_tuning
from shoal_local.sagemaker.pipelines.definition.definition import Definition
from shoal_local.sagemaker.pipelines.definition.expressions import is_expression, reference
from shoal_local.sagemaker.pipelines.definition.parameters import Parameter
from shoal_local.sagemaker.shapes import Document


class UnknownValueError(TypeError):
    """A check asked for a value that only the run knows."""


class Unknown:
    """Stands for such a value; neither its truth nor whether it equals another is known."""

    def __eq__(self, other: object) -> bool:
        raise UnknownValueError

    def __bool__(self) -> bool:
        raise UnknownValueError

    def __hash__(self) -> int:
        raise UnknownValueError


CHECKS: Mapping[str, Callable[[Document], None]] = {
    "Training": check_training,
    "Processing": check_processing,
    "Transform": check_transform,
    "Tuning": check_tuning,
}


def check_arguments(definition: Definition) -> None:
    """Raise the error that a step's Create call would raise."""
    for step in definition.steps.values():
        if step.type not in CHECKS:
            continue
        request = _with_defaults(step.arguments, definition.parameters)
        try:
            CHECKS[step.type](request)
        except AwsError as error:
            raise AwsError(
                error.code, f"Step {step.name}: {error.message}", error.http_status
            ) from error
        except (TypeError, AttributeError):
            if not _has_unknown(request):
                raise


def _with_defaults(value: Any, parameters: Mapping[str, Parameter]) -> Any:
    """Return the arguments with the defaults of parameters, and Unknown for other expressions."""
    if is_expression(value):
        named = reference(value["Get"]) if "Get" in value else None
        is_parameter = named is not None and named.kind == "Parameters" and not named.path
        default = parameters[named.name].default if named and is_parameter else None
        return Unknown() if default is None else default
    if isinstance(value, dict):
        return {key: _with_defaults(member, parameters) for key, member in value.items()}
    if isinstance(value, list):
        return [_with_defaults(member, parameters) for member in value]
    return value


def _has_unknown(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_unknown, value.values()))
    if isinstance(value, list):
        return any(map(_has_unknown, value))
    return isinstance(value, Unknown)
