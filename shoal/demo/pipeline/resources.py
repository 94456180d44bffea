"""What the steps of an execution made, as the demo's summary lists it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from shoal.verbs.execution import Execution
from shoal.verbs.inventory import Resource

_MADE_BY_STEPS = {
    "TrainingJob": "training job",
    "ProcessingJob": "processing job",
    "TransformJob": "transform job",
    "RegisterModel": "model package",
    "Model": "model",
    "EndpointConfig": "endpoint config",
    "Endpoint": "endpoint",
}


def made_by_steps(execution: Execution) -> tuple[Resource, ...]:
    """Return what the steps created or ran, jobs included."""
    pairs = (
        (kind, step.resource(key))
        for step in execution.steps
        for key, kind in _MADE_BY_STEPS.items()
    )
    return tuple(Resource(kind, arn.partition("/")[2]) for kind, arn in pairs if arn)


def resource_rows(resources: Iterable[Resource]) -> list[dict[str, str]]:
    """Return resources as JSON, each once.

    Names read from ARNs are lower case; the name with capitals wins, and sorts first.
    """
    once = {
        (resource.kind, resource.name.lower()): resource
        for resource in sorted(set(resources), reverse=True)
    }
    return [asdict(resource) for resource in sorted(once.values())]
