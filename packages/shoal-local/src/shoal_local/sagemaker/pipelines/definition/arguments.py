"""Refuses, when a pipeline is created, step arguments that its run would refuse.

A parameter counts with its default. At a value that only the run knows (another step's output, a
parameter without default) the check of that step ends, because every answer would be a guess. An
image that has no runtime here, or a machine without namespaces, refuses the job, not the pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from shoal_local.errors import AwsError
from shoal_local.sagemaker.jobs.processing_jobs import check_processing
from shoal_local.sagemaker.jobs.training.training_request import check_training
from shoal_local.sagemaker.jobs.transform_jobs import check_transform
from shoal_local.sagemaker.jobs.tuning_jobs import check_tuning
from shoal_local.sagemaker.pipelines.definition.definition import Definition
from shoal_local.sagemaker.pipelines.definition.expressions import reference, with_wildcards
from shoal_local.sagemaker.pipelines.definition.parameters import Parameter
from shoal_local.sagemaker.shapes import Anything, Document

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
        request = with_wildcards(step.arguments, partial(_default, definition.parameters))
        try:
            CHECKS[step.type](request)
        except AwsError as error:
            raise AwsError(
                error.code, f"Step {step.name}: {error.message}", error.http_status
            ) from error
        except (TypeError, AttributeError):
            if not _has_unknown(request):
                raise


def _default(parameters: Mapping[str, Parameter], expression: Document) -> Any:
    """Return the default of the parameter that an expression names; None for another expression."""
    get = reference(expression["Get"]) if "Get" in expression else None
    if get is None or get.kind != "Parameters" or get.path:
        return None
    return parameters[get.name].default


def _has_unknown(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_unknown, value.values()))
    if isinstance(value, list):
        return any(map(_has_unknown, value))
    return isinstance(value, Anything)
