"""Retry policies of a step: whether to try again after a failure, and when."""

from __future__ import annotations

import time
from collections.abc import Sequence

from shoal_local.sagemaker.shapes import Document

_DEFAULTS: Document = {"IntervalSeconds": 1, "BackoffRate": 2.0}
_DEFAULT_ATTEMPTS = 5
_AUTOMATIC = ("Step.SERVICE_FAULT", "Step.THROTTLING")
"""The service tries again by itself after these, unless a policy says otherwise (dg
pipelines-retry-policy); how often, it does not say.
"""


class Retries:
    """Counts the attempts of each policy (dg pipelines-retry-policy).

    A policy ends with MaxAttempts or ExpireAfterMin; its pause grows by BackoffRate.
    """

    def __init__(self, policies: Sequence[Document]) -> None:
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
            return time.monotonic() - self._began_at < float(policy["ExpireAfterMin"]) * 60
        return self._used[position] < int(policy.get("MaxAttempts", _DEFAULT_ATTEMPTS))
