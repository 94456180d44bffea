"""The tags of what an execution creates."""

from __future__ import annotations

from typing import Any

from shoal.pipelines.expressions import EXECUTION_ID, Expression
from shoal.settings.names import ENVIRONMENT_TAG, EXECUTION_TAG, PIPELINE_TAG, WORKLOAD_TAG, Names


def step_tags(names: Names) -> list[dict[str, Any]]:
    """Return the tags by which everything that an execution creates is found, attributed, aged and
    counted by the budget, and the customer's own.
    """
    environment = names.environment
    tags: dict[str, str | Expression] = {
        PIPELINE_TAG: names.pipeline,
        EXECUTION_TAG: EXECUTION_ID,
        ENVIRONMENT_TAG: environment.name,
        "shoal:ttl-minutes": str(environment.ttl_minutes),
    }
    if environment.workloads:
        tags[WORKLOAD_TAG] = names.prefix
    tags |= environment.workload_tags
    return [{"Key": key, "Value": value} for key, value in tags.items()]
