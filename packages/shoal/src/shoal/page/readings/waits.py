"""How a training got its instances: on which terms, how long it waited for them, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.aws.execution import Step
from shoal.page.look import Look, seconds_between
from shoal.page.readings.resources import earlier_jobs, instances_of, terms_of

_WAITS = ("Starting", "Pending", "LaunchingMLInstances", "PreparingTrainingStack", "Interrupted")
"""Secondary statuses of a job that has no instances yet, or lost them (botocore 1.44.5)."""


def waited(look: Look, step: Step | None, job: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the seconds for which a training had no instances, attempts without capacity and the
    pauses between them included, and the reason that SageMaker gave.
    """
    if step is None or step.started_at is None:
        return None
    began, phases = job.get("TrainingStartTime"), job.get("SecondaryStatusTransitions", ())
    earlier = [each for each in earlier_jobs(look, step, job) if each]
    seconds = seconds_between(step.started_at, began or step.ended_at or look.now) or 0.0
    for each in earlier:  # which may have trained before the service lost it
        seconds -= seconds_between(each.get("TrainingStartTime"), each.get("TrainingEndTime")) or 0
    waits = [
        (seconds_between(each["StartTime"], each.get("EndTime", look.now)) or 0.0, each)
        for each in phases
        if each["Status"] in _WAITS
    ]
    seconds += sum(took for took, each in waits if began and each["StartTime"] > began)
    failed = [*([] if began else [job]), *reversed(earlier)]
    reasons = [each.get("FailureReason") for each in failed]
    _, longest = max(waits, key=lambda each: each[0], default=(0.0, job))
    reason = next(filter(None, (*reasons, longest.get("StatusMessage"))), None)
    return {"seconds": round(max(0.0, seconds), 3), "reason": reason}


def got(look: Look, step: Step, job: Mapping[str, Any]) -> str:
    """Return in a line what a training runs on, how long it waited for that, and why."""
    kind, count = instances_of(job["ResourceConfig"])
    instances = f"{count} x {kind}" if kind else "no type selected yet"
    wait = waited(look, step, job) or {"seconds": 0.0, "reason": None}
    reason = f": {wait['reason']}" if wait["reason"] else ""
    return f"{instances}, {terms_of(job)}; waited {wait['seconds']:.0f} s{reason}"
