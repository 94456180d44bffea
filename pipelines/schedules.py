"""The section `schedules` and the definition whose executions it starts go in; problems and notices, one per line, come out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from config.errors import Problem
from config.hyperparameters import as_text
from config.schedules import MAX_ALARM_HOURS, silent_hours
from config.settings import Environment

_CONVERSIONS = {"Integer": int, "Float": float}


def problems(environment: Environment, definition: Mapping[str, Any]) -> Iterator[Problem]:
    """Parameters of a schedule that an execution would refuse, every time."""
    declared = {parameter["Name"]: parameter for parameter in definition.get("Parameters", [])}
    for index, schedule in enumerate(environment.schedules):
        for name, value in schedule.parameters.items():
            key = f"schedules[{index}].parameters.{name}"
            if name not in declared:
                known = ", ".join(sorted(declared)) or "none"
                yield Problem(key, f"is no parameter of the pipeline; it declares: {known}", "name one of them", value)
            elif mistake := _mistake(as_text(value), declared[name]):
                yield Problem(key, mistake, "give such a value", value)


def _mistake(text: str, declared: Mapping[str, Any]) -> str:
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


def notices(environment: Environment) -> Iterator[str]:
    """What a schedule does that nobody may expect."""
    for schedule in environment.schedules:
        if schedule.paused:
            yield f"schedule {schedule.name} is paused"
            continue
        if schedule.expression.startswith("rate("):
            yield f"schedule {schedule.name}: {schedule.expression} starts its first execution as soon as it is deployed"
        if silent_hours(schedule) is None:
            yield (
                f"schedule {schedule.name}: {schedule.expression} is too rare for an alarm that waits for its signs, {MAX_ALARM_HOURS} h "
                "at most); a start that fails rings, one that nobody tries does not"
            )
