"""Problems and notices of what starts executions by itself: `schedules` and `data.on_manifest`."""

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date
from typing import Any

from shoal.pipelines.checks.parsers import Script
from shoal.settings.hyperparameters import as_argument, as_text, mistake_in_type, parameter_name
from shoal.settings.names import Names
from shoal.settings.parsing.errors import Problem
from shoal.settings.parsing.schedule_expressions import last_year
from shoal.settings.sections.channels import MANIFEST_PARAMETER
from shoal.settings.sections.evaluation import bounds
from shoal.settings.sections.schedules import MAX_SILENT_DAYS, execution_parameters, silent_hours
from shoal.settings.settings import Environment, Training


def problems(
    environment: Environment,
    definition: Mapping[str, Any],
    script: Script,
) -> Iterator[Problem]:
    """Yield the parameters that an execution which starts by itself would always refuse."""
    declared = {parameter["Name"]: parameter for parameter in definition.get("Parameters", [])}
    if environment.data.on_manifest and MANIFEST_PARAMETER not in declared:
        needed = f"the parameter {MANIFEST_PARAMETER}, which gets the manifest's URI"
        message = f"needs a pipeline with {needed}"
        yield Problem("data.on_manifest", message, "declare it, of type String")
    for where, parameters in execution_parameters(environment.schedules, environment.data):
        for name, value in parameters.items():
            key = f"{where}.parameters.{name}"
            if name not in declared:
                names = ", ".join(sorted(declared)) or "none"
                message = f"is no parameter of the pipeline; it declares: {names}"
                yield Problem(key, message, "name one of them", value)
                continue
            text = as_text(value)
            mistake = mistake_in_type(text, declared[name])
            if declared[name]["Type"] == "Boolean" and text not in ("true", "false"):
                mistake = "must be true or false"  # it is sent as it is written
            if mistake := mistake or mistake_in_value(name, text, environment, script):
                yield Problem(key, mistake, "give such a value", value)


def mistake_in_value(name: str, text: str, environment: Environment, script: Script) -> str:
    """Return what Shoal's own pipeline or its script cannot do although the type is right.

    A definition can declare a type, and no limits; the parameters of a user's pipeline mean what
    they mean there. What code the jobs' roles may read is in
    packages/shoal/src/shoal/constructs/pipeline/pipeline_roles.py.
    """
    training, bucket = environment.training, Names(environment).code_bucket
    hyperparameters = {parameter_name(each): each for each in training.hyperparameters}
    if environment.pipeline is not None:
        return ""
    if name == "InstanceType":
        allowed = (training.instance_type, *training.other_instance_types)
        what = f"is none that the pipeline's role starts: {', '.join(allowed)}"
        return "" if text in allowed else f"{what} (training.other_instance_types)"
    if name == "CodeUri" and not re.fullmatch(rf"s3://{bucket}/\S+\.gz", text):
        return (
            f"is no code archive that a job may read; it must be s3://{bucket}/....gz, as the"
            " output CodeUri of the pipeline's stack is"
        )
    if name in hyperparameters:
        return script.mistake_in(hyperparameters[name], as_argument(text)) or ""
    with suppress(ValueError):  # not a number, which the declared type refuses
        limits = Training.model_json_schema()["properties"]["instance_count"]
        low, high = limits["minimum"], limits["maximum"]
        if name == "InstanceCount" and not low <= float(text) <= high:
            return f"must be from {low:g} to {high:g}"
        gates = {bound.parameter for bound in bounds(environment.evaluation.gates)}
        if name in gates and not math.isfinite(float(text)):
            return "must be a finite number"
    return ""


def notices(environment: Environment) -> Iterator[str]:
    """Yield what a schedule does that people may not expect."""
    for schedule in environment.schedules:
        if schedule.paused:
            continue
        if schedule.expression.startswith("rate("):
            yield (
                f"schedule {schedule.name}: {schedule.expression} starts its first execution as"
                " soon as it is deployed"
            )
        if silent_hours(schedule) is None:
            yield (
                f"schedule {schedule.name}: {schedule.expression} names its years, or is rarer than"
                f" every {MAX_SILENT_DAYS} days, so no alarm waits for its signs; see"
                " `shoal docs decisions/schedules`"
            )


def outdated(environment: Environment, today: date) -> Iterator[str]:
    """Yield the schedules that will never start again.

    That is no mistake of the file, which was right once; and a template must not depend on the day.
    """
    for index, schedule in enumerate(environment.schedules):
        last = last_year(schedule.expression)
        if last is not None and last < today.year:
            yield (
                f"schedules[{index}].expression {schedule.expression}: its last year, {last}, is"
                " past, so it starts nothing any more; give a later year or *, or remove the"
                " schedule"
            )
