"""The rule of `training.other_instance_types`: each must be able to run the same request.

The launcher's hyperparameters, EFA's variables and the image are fixed when the definition is made,
from `training.instance_type`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from shoal.settings.parsing.errors import ConfigError, Problem
from shoal.settings.settings import Environment

KEY = "training.other_instance_types"


def problems(
    environment: Environment,
    definition: dict[str, Any],
    build: Callable[[Environment], dict[str, Any]],
) -> Iterator[Problem]:
    """Yield a problem for each type that needs another request, or cannot run at all.

    `build` returns the definition of an environment, or raises ConfigError.
    """
    for instance_type in environment.training.other_instance_types:
        training = environment.training.model_copy(
            update={"instance_type": instance_type, "other_instance_types": ()}
        )
        try:
            other = build(environment.model_copy(update={"training": training}))
        except ConfigError as error:
            yield Problem(
                KEY, f"cannot run there: {error.problems[0].message}", "leave it out", instance_type
            )
            continue
        if changed := _differences(definition, other):
            message = f"needs other {', '.join(changed)} than {environment.training.instance_type}"
            yield Problem(KEY, message, "give it an environment of its own", instance_type)


def _differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Return the parts of the training requests that differ; the type is a parameter of both."""
    ours, theirs = (definition["Steps"][0]["Arguments"] for definition in (one, other))
    return sorted(key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key))
