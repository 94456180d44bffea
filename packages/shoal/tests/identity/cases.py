"""A question that IAM allows, and the one with a change that it must refuse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from shoal_local.control.http.iam_request import ContextValue, Question
from tests.identity.roles import Roles


@dataclass(frozen=True)
class Case:
    """An allowed question of an actor, and the changes to it that IAM must refuse."""

    actor: str
    allowed: Question
    resource: str = ""
    context: Mapping[str, ContextValue | None] | None = None
    action: str = ""
    instead: Question | None = None
    """Another question altogether, where one change does not say it."""

    def forbidden(self) -> Question:
        """Return the question with the change; a context key that is None is left out."""
        if self.instead:
            return self.instead
        changed = {**self.allowed.context, **(self.context or {})}
        kept = {key: value for key, value in changed.items() if value is not None}
        return replace(
            self.allowed,
            action=self.action or self.allowed.action,
            resource=self.resource or self.allowed.resource,
            context=kept,
        )

    def decided(self, roles: Roles, role: str) -> list[bool]:
        """Return whether the role may ask the allowed question, and the forbidden one."""
        questions = (self.allowed, self.forbidden())
        return [roles.decide(role, question).allowed for question in questions]


def arn(service: str, resource: str) -> str:
    """Return an ARN in the account and region of dev."""
    return f"arn:aws:{service}:us-east-1:111122223333:{resource}"
