"""Retry policies are what the documentation lists, within its limits."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.pipelines.retries import CREATE_CALL, JOB, RetryOn, RetryPolicy


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
    ],
)
def test_limits_of_the_documentation_hold(wrong: dict[str, Any], message: str) -> None:
    valid: dict[str, Any] = {"on": (RetryOn.THROTTLING,), "max_attempts": 1}
    with pytest.raises(ValueError, match=message):
        RetryPolicy(**valid | wrong)


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
