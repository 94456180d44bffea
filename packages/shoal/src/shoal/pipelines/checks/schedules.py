"""Problems and notices of what starts executions by itself: `schedules` and `data.on_manifest`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from shoal.pipelines.checks.parsers import Script
from shoal.settings.hyperparameters import as_argument, as_text, parameter_name
from shoal.settings.parsing.errors import Problem
from shoal.settings.parsing.schedule_expressions import last_year
from shoal.settings.sections.channels import MANIFEST_PARAMETER
from shoal.settings.sections.evaluation import bounds
from shoal.settings.sections.schedules import MAX_SILENT_DAYS, execution_parameters, silent_hours
from shoal.settings.settings import Environment, Training

_CONVERSIONS = {"Integer": int, "Float": float}


def problems(
    environment: Environment,
    definition: Mapping[str, Any],
    script: Script | None = None,
) -> Iterator[Problem]:
    """Yield the parameters that an execution which starts by itself, with this training script,
    would always refuse.
    """
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
            elif mistake := _type_mistake(as_text(value), declared[name]) or _limit_mistake(
                as_text(value), name, environment, script
            ):
                yield Problem(key, mistake, "give such a value", value)


def _type_mistake(text: str, declared: Mapping[str, Any]) -> str:
    allowed = [str(each) for each in declared.get("EnumValues", ())]
    if allowed and text not in allowed:
        return f"is not allowed; the pipeline takes {', '.join(allowed)}"
    kind = declared["Type"]
    if kind == "Boolean":
        return "" if text in ("true", "false") else "must be true or false"
    try:
        _CONVERSIONS.get(kind, str)(text)
    except ValueError:
        return f"must be of the pipeline's type {kind}"
    return ""


def _limit_mistake(text: str, name: str, environment: Environment, script: Script | None) -> str:
    """Return what Shoal's own pipeline or its script cannot do although the type is right.

    The parameters of a user's pipeline mean what they mean there.
    """
    if environment.pipeline is not None:
        return ""
    if name == "InstanceType":
        return instance_type_mistake(text, environment)
    hyperparameters = {parameter_name(each): each for each in environment.training.hyperparameters}
    if script and name in hyperparameters:
        return script.mistake_in(hyperparameters[name], as_argument(text)) or ""
    if name in {bound.parameter for bound in bounds(environment.evaluation.gates)}:
        return "" if math.isfinite(float(text)) else "must be a finite number"
    if name != "InstanceCount":
        return ""
    limits = Training.model_json_schema()["properties"]["instance_count"]
    low, high = limits["minimum"], limits["maximum"]
    return "" if low <= float(text) <= high else f"must be from {low:g} to {high:g}"


def instance_type_mistake(text: str, environment: Environment) -> str:
    """Return why an execution of Shoal's own pipeline cannot have this type; empty if it can."""
    training = environment.training
    allowed = (training.instance_type, *training.other_instance_types)
    if text in allowed:
        return ""
    return (
        f"is none that the pipeline's role starts: {', '.join(allowed)}"
        " (training.other_instance_types)"
    )


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
