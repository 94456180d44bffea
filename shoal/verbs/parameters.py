"""`--parameter KEY=VALUE` arguments in; pipeline parameters out, or what is wrong with them, before
anything starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from config.settings import Environment
from pipelines.check import placeholder_infrastructure
from pipelines.launch import launch_of
from pipelines.own_pipeline import definition_of
from pipelines.script_options import parameters_of
from shoal.verbs import execution
from shoal.verbs.errors import ParameterError

_LIMITS = {"MinAccuracy": (0.0, 1.0), "InstanceCount": (1.0, float("inf"))}
"""Of parameters that Shoal's pipeline has; a definition can declare a type, and no limits."""


def parse_parameters(given: tuple[str, ...]) -> dict[str, str]:
    """`KEY=VALUE` arguments as a dictionary. Raises ParameterError."""
    parameters = {}
    for entry in given:
        name, separator, value = entry.partition("=")
        if not separator or not name:
            raise ParameterError(f"--parameter {entry!r}: write KEY=VALUE")
        parameters[name] = value
    return parameters


def check_declared(environment: Environment, given: Mapping[str, str], root: Path) -> None:
    """Raises ParameterError for what the pipeline of the environment, as it would be deployed now,
    does not declare; ConfigError.
    """
    if given:
        infrastructure = placeholder_infrastructure(environment)
        definition = definition_of(environment, infrastructure, launch_of(environment, root), root)
        execution.check_parameters(definition.get("Parameters", []), given)


def check_values(environment: Environment, given: Mapping[str, str], root: Path) -> None:
    """Raises ParameterError for values that Shoal's own pipeline or the training script would
    refuse only when they run.
    """
    if environment.pipeline is not None:  # the user's, whose parameters mean what they mean there
        return
    _check_limits(given)
    training = environment.training
    for name, option in parameters_of(training, training.entry_point, root).items():
        if name in given and (mistake := option.mistake_in(given[name])):
            raise ParameterError(f"parameter {name!r}: {given[name]!r} {mistake}")


def _check_limits(given: Mapping[str, str]) -> None:
    for name, (least, most) in _LIMITS.items():
        with suppress(ValueError):  # not a number, which the declared type refuses
            if name in given and not least <= float(given[name]) <= most:
                allowed = (
                    f"from {least:g} to {most:g}" if most < float("inf") else f"{least:g} or more"
                )
                raise ParameterError(
                    f"parameter {name!r}: {given[name]!r} is not allowed; it must be {allowed}"
                )
