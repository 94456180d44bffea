"""A question that AWS asks IAM before it acts: may this principal do this action on this resource,
under these conditions?
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ContextValue = str | list[str]
ANY = "*"
OWNER = "aws:ResourceAccount"
"""Condition key of the account that owns the resource, if its ARN does not name that."""


def account_of(arn: str) -> str:
    """Return the account in an ARN, empty for an ARN without one, such as those of S3."""
    parts = arn.split(":", 5)
    return parts[4] if len(parts) > 5 else ""


@dataclass(frozen=True)
class Question:
    """One action on one resource.

    `action` is written as in a policy (`s3:GetObject`), `resource` is an ARN or `*`, and `context`
    has condition keys and their values.
    """

    action: str
    resource: str = ANY
    context: Mapping[str, ContextValue] = field(default_factory=dict)
    source: str = ""
    """The documentation of what AWS does on the caller's behalf, if it asks this for that."""

    @property
    def service(self) -> str:
        return self.action.partition(":")[0]

    def as_json(self) -> dict[str, Any]:
        """Return the question as requests.jsonl has it."""
        return (
            {"action": self.action, "resource": self.resource}
            | ({"context": dict(self.context)} if self.context else {})
            | ({"implied": self.source} if self.source else {})
        )
