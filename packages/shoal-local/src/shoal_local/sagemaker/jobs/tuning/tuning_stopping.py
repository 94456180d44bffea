"""When a training job of a tuning job is stopped early, and when the tuning job is complete.

The rules are those of the developer guide: "Stop Training Jobs Early" and "Track and set completion
criteria for your tuning job".
"""

from __future__ import annotations

import statistics
import threading
import time

from shoal_local.sagemaker.errors import not_emulated
from shoal_local.sagemaker.shapes import Document

_SIGNIFICANT = 0.01
"""The part of the best value by which another one must be better to count (API reference,
BestObjectiveNotImproving).
"""


class EarlyStopping:
    """Compares each value of a running job with the jobs that have completed before.

    The n-th value that a job prints is that of its n-th epoch.
    """

    def __init__(self, config: Document) -> None:
        self._sign = _sign(config)
        self._is_on = config.get("TrainingJobEarlyStoppingType") == "Auto"
        self._values: dict[str, list[float]] = {}
        self._completed: set[str] = set()
        self._lock = threading.Lock()

    def is_to_stop(self, job: str, value: float) -> bool:
        """Take the next value of a job's objective; return whether the job is to stop for it."""
        with self._lock:
            values = self._values.setdefault(job, [])
            values.append(value)
            averages = [
                statistics.fmean(self._values[each][: len(values)])
                for each in self._completed
                if each in self._values
            ]
        return (
            self._is_on
            and bool(averages)
            and self._sign * value < self._sign * statistics.median(averages)
        )

    def complete(self, job: str) -> None:
        """Compare later values with this job's, too."""
        with self._lock:
            self._completed.add(job)


class CompletionCriteria:
    """The criteria by which a tuning job ends before its last training job."""

    def __init__(self, config: Document) -> None:
        criteria = config.get("TuningJobCompletionCriteria", {})
        self._sign = _sign(config)
        self._target = criteria.get("TargetObjectiveMetricValue")
        self._max_not_improving = criteria.get("BestObjectiveNotImproving", {}).get(
            "MaxNumberOfTrainingJobsNotImproving"
        )
        limit_s = config["ResourceLimits"].get("MaxRuntimeInSeconds")
        self._ends_at = None if limit_s is None else time.monotonic() + limit_s
        self._best: float | None = None
        self._not_improving = 0

    def learn(self, value: float) -> None:
        """Take the final value of a training job."""
        gain = None if self._best is None else self._sign * (value - self._best)
        if gain is None or gain > 0:
            is_significant = gain is None or gain >= _SIGNIFICANT * abs(self._best or 0.0)
            self._best = value
        else:
            is_significant = False
        self._not_improving = 0 if is_significant else self._not_improving + 1

    def are_met(self) -> bool:
        """Return whether the tuning job is to end now."""
        if self._ends_at is not None and time.monotonic() >= self._ends_at:
            return True
        if self._best is None:
            return False
        if self._target is not None and self._sign * (self._best - self._target) >= 0:
            return True
        return self._max_not_improving is not None and (
            self._not_improving >= self._max_not_improving
        )


def check_stopping(config: Document) -> None:
    """Raise AwsError for the criterion whose rule AWS does not publish."""
    convergence = config.get("TuningJobCompletionCriteria", {}).get("ConvergenceDetected", {})
    if convergence.get("CompleteOnConvergence") == "Enabled":
        raise not_emulated(
            "ConvergenceDetected, because AWS does not publish how it detects convergence"
        )


def _sign(config: Document) -> int:
    return 1 if config["HyperParameterTuningJobObjective"]["Type"] == "Maximize" else -1
