"""Read and check pipeline parameters before anything starts."""

from collections.abc import Mapping
from pathlib import Path

from shoal.aws import execution
from shoal.errors import ParameterError
from shoal.launch import launch_of
from shoal.pipelines.checks.parsers import Script
from shoal.pipelines.checks.schedules import mistake_in_value
from shoal.pipelines.checks.scripts import script_at
from shoal.pipelines.graph import placeholder_infrastructure
from shoal.pipelines.own_pipeline import definition_of
from shoal.settings.settings import Environment


def parse_parameters(arguments: tuple[str, ...]) -> dict[str, str]:
    """Return `KEY=VALUE` arguments as a dictionary; raise ParameterError."""
    parameters = {}
    for entry in arguments:
        name, separator, value = entry.partition("=")
        if not separator or not name:
            raise ParameterError(f"--parameter {entry!r}: write KEY=VALUE")
        if name in parameters:
            raise ParameterError(f"parameter {name!r} is given twice; give it once")
        parameters[name] = value
    return parameters


def check_declared(environment: Environment, parameters: Mapping[str, str], root: Path) -> None:
    """Raise ParameterError for a parameter that the environment's pipeline does not declare.

    The pipeline is built as it would be deployed now. Raises ConfigError.
    """
    if parameters:
        infrastructure = placeholder_infrastructure(environment)
        definition = definition_of(environment, infrastructure, launch_of(environment, root), root)
        execution.check_parameters(definition.get("Parameters", []), parameters)


def check_values(environment: Environment, parameters: Mapping[str, str], root: Path) -> None:
    """Raise ParameterError for values that pipeline or script would refuse only when they run."""
    if environment.pipeline is not None or not parameters:  # a user's may have any script
        return
    training = environment.training
    try:
        script = script_at(training, root)
    except (SyntaxError, ValueError):  # being edited: what runs was deployed, and could be read
        script = Script(training.entry_point)
    for name, value in parameters.items():
        if mistake := mistake_in_value(name, value, environment, script):
            raise ParameterError(f"parameter {name!r}: {value!r} {mistake}")
