"""Retry policies are what the documentation lists, within its limits."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.pipelines.retries import CREATE_CALL, JOB, RetryOn, RetryPolicy, of_training


def test_a_policy_is_written_in_the_definition_language() -> None:
    assert RetryPolicy(
        (RetryOn.THROTTLING,), max_attempts=3, interval_s=7, backoff_rate=1.5
    ).to_json() == {
        "ExceptionType": ["Step.THROTTLING"],
        "IntervalSeconds": 7,
        "BackoffRate": 1.5,
        "MaxAttempts": 3,
    }


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"on": ()}, "at least one exception type"),
        ({"max_attempts": 0}, "max_attempts must be 1 to 20, not 0"),
        ({"max_attempts": 21}, "max_attempts must be 1 to 20, not 21"),
        ({"interval_s": 0}, "interval_s must be 1 to 43200, not 0"),
        ({"interval_s": 43201}, "interval_s must be 1 to 43200, not 43201"),
        ({"max_attempts": None}, "either max_attempts or expire_after_min"),
        ({"expire_after_min": 1}, "either max_attempts or expire_after_min"),
    ],
)
def test_limits_of_the_documentation_hold(wrong: dict[str, Any], message: str) -> None:
    valid: dict[str, Any] = {"on": (RetryOn.THROTTLING,), "max_attempts": 1}
    with pytest.raises(ValueError, match=message):
        RetryPolicy(**valid | wrong)


@pytest.mark.parametrize(
    ("retry_for_s", "interval_s", "minutes"),
    [(60, 60, 1), (301, 300, 6), (86_400, 300, 1440), (864_000, 300, 14_400)],
)
def test_capacity_is_looked_for_as_long_as_said_and_nothing_else(
    retry_for_s: int, interval_s: int, minutes: int
) -> None:
    _, waiting, lost = of_training(retry_for_s)
    assert waiting.to_json() == {
        "ExceptionType": ["SageMaker.CAPACITY_ERROR", "SageMaker.RESOURCE_LIMIT"],
        "IntervalSeconds": interval_s,
        "BackoffRate": 1.0,
        "ExpireAfterMin": minutes,
    }
    assert (lost.on, lost.max_attempts) == ((RetryOn.JOB_INTERNAL_ERROR,), JOB.max_attempts)
    assert of_training(None) == (CREATE_CALL, JOB)


def test_a_failing_script_is_never_tried_again() -> None:
    """Our policies have faults of the service only: any other failure ends the job, on AWS as
    locally.
    """
    ours = {kind for policy in (CREATE_CALL, JOB) for kind in policy.on}
    assert ours == {
        RetryOn.SERVICE_FAULT,
        RetryOn.THROTTLING,
        RetryOn.CAPACITY_ERROR,
        RetryOn.JOB_INTERNAL_ERROR,
    }
