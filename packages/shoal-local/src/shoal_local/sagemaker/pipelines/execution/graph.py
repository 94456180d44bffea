"""Which steps may start now, whether a failed one is tried again, and how an execution ends."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from shoal_local.sagemaker.pipelines.definition.definition import Step
from shoal_local.sagemaker.shapes import Document

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


_DEFAULTS: Document = {"IntervalSeconds": 1, "BackoffRate": 2.0}
_DEFAULT_ATTEMPTS = 5
_AUTOMATIC = ("Step.SERVICE_FAULT", "Step.THROTTLING")
"""The service tries again by itself after these, unless a policy says otherwise (dg
pipelines-retry-policy); how often, it does not say.
"""


class Retries:
    """Counts the attempts of each policy (dg pipelines-retry-policy).

    A policy ends with MaxAttempts or ExpireAfterMin, whose clock runs `speed` times as fast as
    ours; its pause grows by BackoffRate.
    """

    def __init__(self, policies: Sequence[Document], speed: float = 1.0) -> None:
        self._speed = speed
        exceptions = {exception for policy in policies for exception in policy["ExceptionType"]}
        automatic = {
            "ExceptionType": [exception for exception in _AUTOMATIC if exception not in exceptions]
        }
        self._policies = [_DEFAULTS | policy for policy in (*policies, automatic)]
        self._used = [0] * len(self._policies)
        self._began_at = time.monotonic()
        self.attempts = 1

    def pause_s(self, cause: str) -> float | None:
        """Return the seconds until the next attempt after a failure with `cause`; None if no policy
        allows one.
        """
        for position, policy in enumerate(self._policies):
            if cause and cause in policy["ExceptionType"] and self._is_left(position):
                pause_s = (
                    float(policy["IntervalSeconds"])
                    * float(policy["BackoffRate"]) ** self._used[position]
                )
                self._used[position] += 1
                self.attempts += 1
                return pause_s
        return None

    def _is_left(self, position: int) -> bool:
        policy = self._policies[position]
        if "ExpireAfterMin" in policy:
            passed_s = (time.monotonic() - self._began_at) * self._speed
            return passed_s < float(policy["ExpireAfterMin"]) * 60
        return self._used[position] < int(policy.get("MaxAttempts", _DEFAULT_ATTEMPTS))
