"""When SageMaker may try a step again, and the JSON of `RetryPolicies`.

Only mistakes of the service itself are tried again, never a script that failed. Source:
https://docs.aws.amazon.com/sagemaker/latest/dg/pipelines-retry-policy.html
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

MAX_ATTEMPTS = 20
MAX_INTERVAL_S = 43_200


class RetryOn(StrEnum):
    """The exception types that the documentation lists."""

    SERVICE_FAULT = "Step.SERVICE_FAULT"
    THROTTLING = "Step.THROTTLING"
    JOB_INTERNAL_ERROR = "SageMaker.JOB_INTERNAL_ERROR"
    CAPACITY_ERROR = "SageMaker.CAPACITY_ERROR"
    RESOURCE_LIMIT = "SageMaker.RESOURCE_LIMIT"


@dataclass(frozen=True)
class RetryPolicy:
    """Up to `max_attempts` further attempts, after `interval_s` and then `backoff_rate` times
    longer.
    """

    on: tuple[RetryOn, ...]
    max_attempts: int
    interval_s: int = 1
    backoff_rate: float = 2.0

    def __post_init__(self) -> None:
        if not self.on:
            raise ValueError("a retry policy needs at least one exception type")
        if not 1 <= self.max_attempts <= MAX_ATTEMPTS:
            raise ValueError(f"max_attempts must be 1 to {MAX_ATTEMPTS}, not {self.max_attempts}")
        if not 1 <= self.interval_s <= MAX_INTERVAL_S:
            raise ValueError(f"interval_s must be 1 to {MAX_INTERVAL_S}, not {self.interval_s}")

    def to_json(self) -> dict[str, Any]:
        return {
            "ExceptionType": [str(kind) for kind in self.on],
            "IntervalSeconds": self.interval_s,
            "BackoffRate": self.backoff_rate,
            "MaxAttempts": self.max_attempts,
        }


CREATE_CALL = RetryPolicy((RetryOn.SERVICE_FAULT, RetryOn.THROTTLING), max_attempts=5, interval_s=5)
"""The Create call itself failed on the service's side."""
JOB = RetryPolicy(
    (RetryOn.CAPACITY_ERROR, RetryOn.JOB_INTERNAL_ERROR), max_attempts=5, interval_s=60
)
"""The job found no instances, or the service lost it."""
