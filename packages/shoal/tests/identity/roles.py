"""Asks the evaluator what IAM answers to a role's question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from shoal_local.control.authorization.evaluator import Decision, Evaluator, Policy
from shoal_local.control.http.iam_request import Question
from tests.identity.templates import ACCOUNT

TO_ACCOUNT = {
    "Effect": "Allow",
    "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
    "Action": "kms:*",
    "Resource": "*",
}
"""The statement of a key that leaves everything to IAM."""


@dataclass(frozen=True)
class Roles:
    """Identity policies by role and policy name, and resource policies by the ARN of their resource
    (an object's: its bucket's).
    """

    evaluator: Evaluator
    identity: Mapping[str, Mapping[str, Policy]]
    resources: Mapping[str, Policy] = field(default_factory=dict)

    def decide(self, role: str, question: Question, missing: str = "") -> Decision:
        """Return IAM's answer to the role; `missing` is the Sid of a statement to leave out."""
        policies = self.identity[role]
        if missing:
            policies = {name: without(document, missing) for name, document in policies.items()}
        principal = f"arn:aws:sts::{ACCOUNT}:assumed-role/{role}/session"
        on = question.resource.partition("/")[0] if question.service == "s3" else question.resource
        return self.evaluator.decide(
            question, principal, policies, resource_policy=self.resources.get(on)
        )

    def statements(self, role: str) -> Iterator[tuple[str, Policy]]:
        """Yield Sid and statement, of every policy of the role."""
        for document in self.identity[role].values():
            yield from named(document).items()


def named(document: Policy) -> dict[str, Policy]:
    """Return statements by Sid, or by number (`#1`) where they have none, as the evaluator names
    them.
    """
    return {
        statement.get("Sid") or f"#{index}": statement
        for index, statement in enumerate(document["Statement"], start=1)
    }


def without(document: Policy, sid: str) -> Policy:
    """Return the policy without the statement of that Sid."""
    return {
        **document,
        "Statement": [statement for key, statement in named(document).items() if key != sid],
    }
