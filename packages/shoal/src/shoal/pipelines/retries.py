"""When SageMaker may try a step again, and the JSON of `RetryPolicies`.

Only mistakes of the service itself are tried again, never a script that failed. Source:
https://docs.aws.amazon.com/sagemaker/latest/dg/pipelines-retry-policy.html
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

MAX_ATTEMPTS = 20
MAX_INTERVAL_S = 43_200
_CAPACITY_INTERVAL_S = 300


class RetryOn(StrEnum):
    """The exception types that the documentation lists."""

    SERVICE_FAULT = "Step.SERVICE_FAULT"
    THROTTLING = "Step.THROTTLING"
    JOB_INTERNAL_ERROR = "SageMaker.JOB_INTERNAL_ERROR"
    CAPACITY_ERROR = "SageMaker.CAPACITY_ERROR"
    RESOURCE_LIMIT = "SageMaker.RESOURCE_LIMIT"


@dataclass(frozen=True)
class RetryPolicy:
    """Up to `max_attempts` further attempts, or for `expire_after_min` minutes, after `interval_s`
    and then `backoff_rate` times longer.
    """

    on: tuple[RetryOn, ...]
    max_attempts: int | None = None
    interval_s: int = 1
    backoff_rate: float = 2.0
    expire_after_min: int | None = None

    def __post_init__(self) -> None:
        if not self.on:
            raise ValueError("a retry policy needs at least one exception type")
        if (self.max_attempts is None) is (self.expire_after_min is None):
            raise ValueError("a retry policy needs either max_attempts or expire_after_min")
        if self.max_attempts is not None and not 1 <= self.max_attempts <= MAX_ATTEMPTS:
            raise ValueError(f"max_attempts must be 1 to {MAX_ATTEMPTS}, not {self.max_attempts}")
        if not 1 <= self.interval_s <= MAX_INTERVAL_S:
            raise ValueError(f"interval_s must be 1 to {MAX_INTERVAL_S}, not {self.interval_s}")

    def to_json(self) -> dict[str, Any]:
        policy = {
            "ExceptionType": [str(kind) for kind in self.on],
            "IntervalSeconds": self.interval_s,
            "BackoffRate": self.backoff_rate,
        }
        if self.expire_after_min is not None:
            return policy | {"ExpireAfterMin": self.expire_after_min}
        return policy | {"MaxAttempts": self.max_attempts}


CREATE_CALL = RetryPolicy((RetryOn.SERVICE_FAULT, RetryOn.THROTTLING), max_attempts=5, interval_s=5)
"""The Create call itself failed on the service's side."""
JOB = RetryPolicy(
    (RetryOn.CAPACITY_ERROR, RetryOn.JOB_INTERNAL_ERROR), max_attempts=5, interval_s=60
)
"""The job found no instances, or the service lost it."""


def of_training(retry_for_s: int | None) -> tuple[RetryPolicy, ...]:
    """Return the policies of a job that looks for instances as long as JOB does, or for
    `retry_for_s`: then at a fixed pace, since a doubled pause would sleep through free capacity.

    RESOURCE_LIMIT waits, too, for a sibling's job may hold the quota. A policy cannot tell that
    from a quota that is too small for ever: `shoal run` asks before it starts.
    """
    if retry_for_s is None:
        return (CREATE_CALL, JOB)
    waiting = RetryPolicy(
        (RetryOn.CAPACITY_ERROR, RetryOn.RESOURCE_LIMIT),
        interval_s=min(_CAPACITY_INTERVAL_S, retry_for_s),
        backoff_rate=1.0,
        expire_after_min=math.ceil(retry_for_s / 60),
    )
    return (CREATE_CALL, waiting, replace(JOB, on=(RetryOn.JOB_INTERNAL_ERROR,)))
