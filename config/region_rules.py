"""The rules of what an environment cannot have in its region."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from config.errors import NOTHING, Problem
from config.regions import resource_types_not_in
from config.settings import Environment

_NEEDS: tuple[tuple[str, str, Callable[[Environment], Any]], ...] = (
    ("AWS::SageMaker::ModelPackageGroup", "region", lambda environment: environment.region),
    (
        "AWS::Budgets::Budget",
        "observability.monthly_budget_usd",
        lambda environment: environment.observability.monthly_budget_usd,
    ),
    (
        "AWS::CodeBuild::Project",
        "training.build_image",
        lambda environment: environment.training.build_image,
    ),
    (
        "AWS::SageMaker::Endpoint",
        "serving",
        lambda environment: NOTHING if environment.serving else None,
    ),
    (
        "AWS::FSx::FileSystem",
        "file_system",
        lambda environment: (
            environment.file_system and str(environment.file_system.deployment_type)
        ),
    ),
)
"""Resource type, the key that asks for it, and the key's value; None where nothing asks for it."""


def _resource_types(environment: Environment) -> Iterator[Problem]:
    """Name what CloudFormation would refuse only after it has made the stacks before."""
    missing = resource_types_not_in(environment.region)
    for resource_type, key, value_of in _NEEDS:
        value = value_of(environment)
        if resource_type in missing and value is not None:
            message = (
                f"needs {resource_type}, which CloudFormation does not have in {environment.region}"
            )
            advice = (
                "choose another region"
                if key == "region"
                else "remove it, or choose another region"
            )
            yield Problem(key, message, advice, value, ("region",))


RULES = (_resource_types,)
