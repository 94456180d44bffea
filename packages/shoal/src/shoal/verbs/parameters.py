"""Read and check pipeline parameters before anything starts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from shoal.aws import execution
from shoal.aws.cdk import QUALIFIER
from shoal.errors import ParameterError
from shoal.launch import launch_of
from shoal.pipelines.checks.check import placeholder_infrastructure
from shoal.pipelines.checks.schedules import instance_type_mistake
from shoal.pipelines.checks.script_options import parameters_of
from shoal.pipelines.own_pipeline import definition_of
from shoal.settings.sections.gates import bounds
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
    _check_numbers(environment, parameters)
    _check_instance_type(environment, parameters)
    _check_code(environment, parameters)
    training = environment.training
    for name, option in parameters_of(training, training.entry_point, root).items():
        if name in parameters and (mistake := option.mistake_in(parameters[name])):
            raise ParameterError(f"parameter {name!r}: {parameters[name]!r} {mistake}")


def _check_instance_type(environment: Environment, parameters: Mapping[str, str]) -> None:
    value = parameters.get("InstanceType")
    if value is not None and (mistake := instance_type_mistake(value, environment)):
        raise ParameterError(f"parameter 'InstanceType': {value!r} {mistake}")


def _check_code(environment: Environment, parameters: Mapping[str, str]) -> None:
    """Refuse what the jobs' roles may not read
    (packages/shoal/src/shoal/constructs/pipeline/job_roles.py)."""
    value = parameters.get("CodeUri")
    bucket = f"cdk-{QUALIFIER}-assets-{environment.account}-{environment.region}"
    if value is not None and not re.fullmatch(rf"s3://{bucket}/\S+\.gz", value):
        raise ParameterError(
            f"parameter 'CodeUri': {value!r} is no code archive that a job may read; it must be"
            f" s3://{bucket}/....gz, as the output CodeUri of the pipeline's stack is"
        )


def _check_numbers(environment: Environment, parameters: Mapping[str, str]) -> None:
    """Refuse numbers of Shoal's own parameters; a definition can declare a type, and no limits."""
    limits = {bound.parameter: "a finite number" for bound in bounds(environment.evaluation.gates)}
    for name, allowed in {**limits, "InstanceCount": "1 or more"}.items():
        with suppress(ValueError):  # not a number, which the declared type refuses
            if name in parameters and not _is_allowed(name, float(parameters[name])):
                raise ParameterError(
                    f"parameter {name!r}: {parameters[name]!r} is not allowed; it must be {allowed}"
                )


def _is_allowed(name: str, value: float) -> bool:
    return value >= 1 if name == "InstanceCount" else math.isfinite(value)
