"""Managed spot training: what a request for it must have, how long its job may take, and whether
its capacity is taken away.

Source: developer guide, "Managed Spot Training in Amazon SageMaker AI" and "Managed Spot Training
Lifecycle" (an interrupted job is Interrupted, then Starting, Downloading and Training again); API
reference, StoppingCondition. That the container gets SIGTERM and 120 s is said there of a job that
is stopped; of an interrupted one it is taken to be the same.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from shoal_local.faults import Faults
from shoal_local.sagemaker.errors import invalid
from shoal_local.sagemaker.shapes import Document

_DEFAULT_RUNTIME_S = 86_400


def check_spot(request: Document) -> None:
    """ValidationException for a spot job that may not wait as long as it may train.

    The words: as users report them.
    """
    condition = request["StoppingCondition"]
    wait_s = condition.get("MaxWaitTimeInSeconds")
    if is_spot(request) and (wait_s is None or wait_s < _runtime_s(condition)):
        raise invalid(
            "Invalid MaxWaitTimeInSeconds. It must be present and be greater than or equal to"
            " MaxRuntimeInSeconds"
        )


def is_spot(request: Document) -> bool:
    return bool(request.get("EnableManagedSpotTraining"))


def _runtime_s(condition: Document) -> float:
    return float(condition.get("MaxRuntimeInSeconds", _DEFAULT_RUNTIME_S))


@dataclass
class Allowance:
    """How long one job may go on; it begins when the job does."""

    request: Document
    started_at: float = field(default_factory=time.monotonic)
    trained_s: float = 0.0
    """Of the attempts that are over."""

    def remaining(self) -> tuple[float, str]:
        """Seconds of the next attempt at most, and the secondary status of a job that takes longer.

        MaxRuntimeInSeconds is about training, all attempts together; MaxWaitTimeInSeconds about all
        of the job.
        """
        condition = self.request["StoppingCondition"]
        limits = [(_runtime_s(condition) - self.trained_s, "MaxRuntimeExceeded")]
        if is_spot(self.request):
            limits.append(
                (
                    condition["MaxWaitTimeInSeconds"] - (time.monotonic() - self.started_at),
                    "MaxWaitTimeExceeded",
                )
            )
        return min(limits)

    def add_attempt(self, trained_s: float) -> None:
        """An attempt is over."""
        self.trained_s += trained_s


def is_interrupted(request: Document, faults: Faults) -> bool:
    """Whether a test takes the job's spot capacity away now; nobody else does."""
    name = request["TrainingJobName"]
    rule = faults.take("spot", name, name) if is_spot(request) else None
    if rule is not None:
        faults.happened(rule, name)
    return rule is not None
