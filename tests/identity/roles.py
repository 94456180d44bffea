"""A role's name and the policies of an environment in; what IAM answers to a question of that role
out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from shoal_local.control.authorization.evaluator import Decision, Evaluator, Policy
from shoal_local.control.authorization.iam_request import Question
from tests.identity.templates import ACCOUNT


@dataclass(frozen=True)
class Roles:
    """Identity policies by role and policy name, and resource policies by the ARN of what they are
    on (of an object: its bucket's).
    """

    evaluator: Evaluator
    identity: Mapping[str, Mapping[str, Policy]]
    resources: Mapping[str, Policy] = field(default_factory=dict)

    def decide(self, role: str, question: Question, without: str = "") -> Decision:
        """What IAM answers when the role asks; `without` leaves out the statement with that Sid."""
        policies = self.identity[role]
        if without:
            policies = {name: _without(document, without) for name, document in policies.items()}
        principal = f"arn:aws:sts::{ACCOUNT}:assumed-role/{role}/session"
        on = question.resource.partition("/")[0] if question.service == "s3" else question.resource
        return self.evaluator.decide(
            question, principal, policies, resource_policy=self.resources.get(on)
        )

    def statements(self, role: str) -> Iterator[tuple[str, Policy]]:
        """Sid and statement, of every policy of the role."""
        for document in self.identity[role].values():
            yield from named(document).items()


def named(document: Policy) -> dict[str, Policy]:
    """Statements by Sid, or by number (`#1`) where they have none, as the evaluator names them."""
    return {
        statement.get("Sid") or f"#{index}": statement
        for index, statement in enumerate(document["Statement"], start=1)
    }


def _without(document: Policy, sid: str) -> Policy:
    return {
        **document,
        "Statement": [statement for key, statement in named(document).items() if key != sid],
    }
