"""Managed spot training: how long the job may take, whether it is interrupted.

Source: developer guide, "Managed Spot Training in Amazon SageMaker AI" and "Managed Spot Training
Lifecycle" (an interrupted job is Interrupted, then Starting, Downloading and Training again); API
reference, StoppingCondition. The guide says of a stopped job that its container gets SIGTERM and
120 s. We assume the same of an interrupted one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from shoal_local.faults import Faults
from shoal_local.sagemaker.shapes import Document

_DEFAULT_RUNTIME_S = 86_400


def is_spot(request: Document) -> bool:
    return bool(request.get("EnableManagedSpotTraining"))


def _runtime_s(condition: Document) -> float:
    return float(condition.get("MaxRuntimeInSeconds", _DEFAULT_RUNTIME_S))


@dataclass
class Allowance:
    """The time that one job may take, from its start."""

    request: Document
    started_at: float = field(default_factory=time.monotonic)
    trained_s: float = 0.0
    """Of the attempts that are over."""

    def remaining(self) -> tuple[float, str]:
        """Return the seconds left for the next attempt, and the secondary status of a job that
        takes longer.

        MaxRuntimeInSeconds limits training, all attempts together. MaxWaitTimeInSeconds limits the
        whole job.
        """
        condition = self.request["StoppingCondition"]
        limits = [(_runtime_s(condition) - self.trained_s, "MaxRuntimeExceeded")]
        if is_spot(self.request):
            waits_until = self.started_at + condition.get("MaxWaitTimeInSeconds", 3600)
            limits.append((waits_until - time.monotonic(), "MaxWaitTimeExceeded"))
        return min(limits)


def is_interrupted(request: Document, faults: Faults) -> bool:
    """Return whether a test takes the job's spot capacity away now; nothing else does."""
    name = request["TrainingJobName"]
    rule = faults.take("spot", name, name) if is_spot(request) else None
    if rule is not None:
        faults.happened(rule, name)
    return rule is not None
