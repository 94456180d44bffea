"""Read and check pipeline parameters before anything starts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from shoal.aws import execution
from shoal.errors import ParameterError
from shoal.launch import launch_of
from shoal.pipelines.checks.schedules import instance_type_mistake
from shoal.pipelines.checks.scripts import script_at
from shoal.pipelines.infrastructure import placeholder_infrastructure
from shoal.pipelines.own_pipeline import definition_of
from shoal.settings.hyperparameters import parameter_name
from shoal.settings.names import Names
from shoal.settings.sections.evaluation import bounds
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
    """Raise ParameterError for values that Shoal's pipeline or the training script would refuse
    only when they run.
    """
    if environment.pipeline is not None:  # the user's, whose parameters mean what they mean there
        return
    training = environment.training
    script = script_at(training, training.entry_point, root)
    options = {parameter_name(each): each for each in training.hyperparameters}
    for name, value in parameters.items():
        mistake = _mistake_in(name, value, environment)
        if mistake is None and name in options:
            mistake = script.mistake_in(options[name], value)
        if mistake:
            raise ParameterError(f"parameter {name!r}: {value!r} {mistake}")


def _mistake_in(name: str, value: str, environment: Environment) -> str | None:
    """Return what is wrong with the value of one of Shoal's own parameters.

    A definition can declare a type, and no limits. What code the jobs' roles may read is in
    packages/shoal/src/shoal/constructs/pipeline/job_roles.py.
    """
    bucket = Names(environment).code_bucket
    if name == "InstanceType":
        return instance_type_mistake(value, environment)
    if name == "CodeUri" and not re.fullmatch(rf"s3://{bucket}/\S+\.gz", value):
        return (
            f"is no code archive that a job may read; it must be s3://{bucket}/....gz, as the"
            " output CodeUri of the pipeline's stack is"
        )
    limits = {bound.parameter for bound in bounds(environment.evaluation.gates)}
    with suppress(ValueError):  # not a number, which the declared type refuses
        if name == "InstanceCount" and not float(value) >= 1:
            return "is not allowed; it must be 1 or more"
        if name in limits and not math.isfinite(float(value)):
            return "is not allowed; it must be a finite number"
    return None
