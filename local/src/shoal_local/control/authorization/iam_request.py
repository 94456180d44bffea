"""One question that AWS puts to IAM before it acts: may this principal do this action on this
resource, under these circumstances?
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ContextValue = str | list[str]
ANY = "*"
OWNER = "aws:ResourceAccount"
"""Condition key that says whose the resource is.

A question has it where the resource's ARN does not say so.
"""


def account_of(arn: str) -> str:
    """The account that an ARN names; empty where it names none, as those of S3 do."""
    parts = arn.split(":", 5)
    return parts[4] if len(parts) > 5 else ""


@dataclass(frozen=True)
class Question:
    """`action` as in a policy (`s3:GetObject`), `resource` an ARN or `*`, `context` condition keys
    and their values.

    `source` is empty for what a caller asked for itself. Where AWS does something on the caller's
    behalf (reads an encrypted object, attaches a job to a network), it names the documentation that
    says so.
    """

    action: str
    resource: str = ANY
    context: Mapping[str, ContextValue] = field(default_factory=dict)
    source: str = ""

    @property
    def implied(self) -> bool:
        """Whether AWS asks this for what it does itself in the caller's name."""
        return bool(self.source)

    @property
    def service(self) -> str:
        return self.action.partition(":")[0]

    def as_json(self) -> dict[str, Any]:
        """As it is written into requests.jsonl."""
        kept = {"action": self.action, "resource": self.resource}
        return (
            kept
            | ({"context": dict(self.context)} if self.context else {})
            | ({"implied": self.source} if self.source else {})
        )
