"""Which steps may start now, and how an execution ends: functions of the definition and its
statuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal_local.sagemaker.pipelines.definition.definition import Step

END_STATUSES = {"Succeeded", "Failed", "Stopped"}
_STATUSES_OF_TRIGGER: Mapping[str, set[str]] = {
    "Completed": {"Succeeded"},
    "Failed": {"Failed"},
    "Stopped": {"Stopped"},
    "Any": END_STATUSES,
}


def ready_steps(
    steps: Mapping[str, Step],
    statuses: Mapping[str, str],
    outputs: Mapping[str, Mapping[str, Any]],
) -> list[str]:
    """Return the steps that may start, in the definition's order.

    A step may start if its branch was chosen and its upstream steps ended as their triggers say. If
    an upstream step never starts, it never starts either, whatever the trigger (AWS documents no
    other rule).
    """
    return [
        name
        for name, step in steps.items()
        if name not in statuses
        and (
            step.branch is None or outputs.get(step.branch[0], {}).get("Outcome") is step.branch[1]
        )
        and all(
            statuses.get(upstream) in _STATUSES_OF_TRIGGER[trigger]
            for upstream, trigger in step.dependencies
        )
    ]


def final_status(steps: Mapping[str, Step], statuses: Mapping[str, str], stopped: bool) -> str:
    """Return the execution's final status.

    CompletedWithFailures: every step that failed was followed by one that ran because of the
    failure (SDK v3's step_dependency).
    """
    if stopped:
        return "Stopped"
    failed = {name for name, status in statuses.items() if status == "Failed"}
    if not failed:
        return "Stopped" if "Stopped" in statuses.values() else "Succeeded"
    handled = {
        upstream
        for name, step in steps.items()
        if name in statuses
        for upstream, trigger in step.dependencies
        if trigger in {"Failed", "Any"} and upstream in failed
    }
    return (
        "CompletedWithFailures"
        if failed == handled and not any(steps[name].type == "Fail" for name in failed)
        else "Failed"
    )
