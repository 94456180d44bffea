"""What a key's policy lets somebody do, as far as doctor judges it.

Of the conditions only aws:PrincipalArn of what allows is judged, and resources are not: there they
are the key. Source: IAM user guide, "Policy evaluation logic" (a Deny wins).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

Statement = dict[str, Any]
_EQUAL = ("ArnLike", "ArnEquals", "StringLike", "StringEquals")


@dataclass(frozen=True)
class Use:
    """That somebody does something with a key."""

    kind: str
    """Of the principal: AWS or Service."""
    principal: str
    action: str
    role_arn: str = ""
    """The role of the principal, an account, that does it; empty for any."""
    roles: str = ""
    """A pattern of such roles, none of which may be denied it."""

    @property
    def account(self) -> str:
        """The account of the principal; empty for a service, and for everybody."""
        return self.principal.split(":")[4] if self.principal.startswith("arn:") else ""

    def is_hit_by(self, name: str) -> bool:
        """Return whether the name of a principal in a Deny means the user, or one of them."""
        everybody = {"*", self.principal, self.role_arn, *_account_names(self.account)}
        return name in everybody or (bool(self.roles) and fnmatchcase(name, self.roles))


@dataclass(frozen=True)
class KeyPolicy:
    """The policy of one key."""

    statements: tuple[Statement, ...]

    @classmethod
    def of(cls, kms: Any, key_arn: str) -> "KeyPolicy":
        """Return that of a key, which GetKeyPolicy takes by id or ARN only. Raises ClientError."""
        document = json.loads(kms.get_key_policy(KeyId=key_arn, PolicyName="default")["Policy"])
        listed = document["Statement"]
        return cls(tuple([listed] if isinstance(listed, dict) else listed))

    def allows(self, use: Use) -> bool:
        """Return whether a statement allows it to who is named there, and none always denies it."""
        account = _account_names(use.account)
        own = {"*", use.principal, *(account if use.principal in account else ())}
        return any(
            each["Effect"] == "Allow"
            and own & _principals(each.get("Principal"), use.kind)
            and _is_about(each, use.action)
            and _is_for(each, use)
            for each in self.statements
        ) and all(each.get("Condition") for each in self.denials(use))

    def denials(self, use: Use) -> Iterator[Statement]:
        """Yield the statements that deny it, some on conditions."""
        for each in self.statements:
            if each["Effect"] == "Deny" and _is_about(each, use.action):
                names = _principals(each.get("Principal", each.get("NotPrincipal")), use.kind)
                if any(map(use.is_hit_by, names)) != ("NotPrincipal" in each):
                    yield each


def uses(needed: Statement, roles: str) -> Iterator[Use]:
    """Yield what a statement allows, for each role that its conditions name; `roles` is a pattern
    of those that an account has for it.
    """
    ((kind, principals),) = needed["Principal"].items()
    named = [arn for arns in _role_conditions(needed).values() for arn in arns]
    for principal in sorted(_texts(principals)):
        own = [each for each in named if principal in ("*", *_account_names(each.split(":")[4]))]
        for role in own or [""]:
            for action in needed["Action"]:
                yield Use(kind, principal, action, role, "" if own or kind != "AWS" else roles)


def _account_names(account: str) -> tuple[str, ...]:
    return (account, f"arn:aws:iam::{account}:root") if account else ()


def _is_about(statement: Statement, action: str) -> bool:
    patterns = _texts(statement.get("Action", statement.get("NotAction")))
    is_named = any(fnmatchcase(action.lower(), each.lower()) for each in patterns)
    return is_named != ("NotAction" in statement)


def _is_for(statement: Statement, use: Use) -> bool:
    """Return whether the conditions name the role, or some that are meant by its pattern."""
    role = use.role_arn or use.roles
    return not role or all(
        any(fnmatchcase(role, each) or fnmatchcase(each, role) for each in arns)
        for operator, arns in _role_conditions(statement).items()
        if operator.rpartition(":")[2].removesuffix("IfExists") in _EQUAL
    )


def _role_conditions(statement: Statement) -> dict[str, list[str]]:
    """Return the ARNs of roles that a statement's conditions name, by operator."""
    return {
        operator: sorted(_texts(value))
        for operator, keys in statement.get("Condition", {}).items()
        for key, value in keys.items()
        if key.lower() == "aws:principalarn"
    }


def _principals(principal: Any, kind: str) -> set[str]:
    return _texts(principal.get(kind) if isinstance(principal, dict) else principal)


def _texts(value: Any) -> set[str]:
    return {value} if isinstance(value, str) else set(value or ())
