"""A role's name and the policies of an environment in; what IAM answers to a question of that role out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from emulator.control.authorization.evaluator import Decision, Evaluator, Policy
from emulator.control.authorization.question import Question
from tests.identity.templates import ACCOUNT

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Roles:
    """Identity policies by role and policy name, and the policies of keys by ARN."""

    evaluator: Evaluator
    identity: Mapping[str, Mapping[str, Policy]]
    keys: Mapping[str, Policy]

    def decide(self, role: str, question: Question, without: str = "") -> Decision:
        """What IAM answers when the role asks; `without` leaves out the statement with that Sid."""
        policies = self.identity[role]
        if without:
            policies = {name: _without(document, without) for name, document in policies.items()}
        principal = f"arn:aws:sts::{ACCOUNT}:assumed-role/{role}/session"
        return self.evaluator.decide(question, principal, policies, resource_policy=self.keys.get(question.resource))


def named(document: Policy) -> dict[str, Policy]:
    """Statements by Sid, or by number where they have none."""
    return {statement.get("Sid") or f"#{index}": statement for index, statement in enumerate(document["Statement"], start=1)}


def _without(document: Policy, sid: str) -> Policy:
    return {**document, "Statement": [statement for key, statement in named(document).items() if key != sid]}
