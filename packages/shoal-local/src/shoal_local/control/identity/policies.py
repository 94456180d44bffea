"""Resource policies (role trust, queue, function): whether a document allows a principal an action
on a resource.

Evaluated are Principal, (Not)Action and (Not)Resource with wildcards, and the conditions String*,
Arn*, Bool and Null on the context keys that the caller of `allows` passes. A condition on any other
key does not match.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal


@dataclass(frozen=True)
class Principal:
    """Who acts: `kind` is AWS or Service, `name` an ARN or a service's host name.

    `also` lists further names that mean the same principal.
    """

    kind: str
    name: str
    context: Mapping[str, str] = field(default_factory=dict)
    also: tuple[str, ...] = ()


def allows(
    policy: Mapping[str, Any],
    principal: Principal,
    action: str,
    resource: str,
    context: Mapping[str, str],
) -> bool:
    """Return whether some statement allows it and none denies it."""
    return decision(policy, principal, action, resource, context) == "Allow"


def decision(
    policy: Mapping[str, Any],
    principal: Principal,
    action: str,
    resource: str,
    context: Mapping[str, str],
) -> Literal["Allow", "Deny"] | None:
    """Return the effect of the document, where Deny wins; None if no statement matches."""
    effects = {
        statement["Effect"]
        for statement in listed(policy.get("Statement", []))
        if _names(statement, principal)
        and _listing(statement, "Action", action.lower(), str.lower)
        and _listing(statement, "Resource", resource, str)
        and all(
            _condition(operator, keys, context)
            for operator, keys in statement.get("Condition", {}).items()
        )
    }
    return "Deny" if "Deny" in effects else "Allow" if "Allow" in effects else None


def _listing(
    statement: Mapping[str, Any], element: str, value: str, fold: Callable[[str], str]
) -> bool:
    """Return whether Action (or NotAction, ...) covers the value.

    A statement without Resource is about the resource that the policy is on.
    """
    is_negated = f"Not{element}" in statement
    patterns = listed(statement[f"Not{element}"] if is_negated else statement.get(element, "*"))
    return any(like(fold(pattern), value) for pattern in patterns) != is_negated


def _names(statement: Mapping[str, Any], principal: Principal) -> bool:
    names = statement.get("Principal", {})
    if names == "*":
        return True
    allowed_names = listed(names.get(principal.kind, []))
    return any(name in allowed_names for name in (principal.name, *principal.also, "*"))


def _condition(operator: str, keys: Mapping[str, Any], context: Mapping[str, str]) -> bool:
    if_exists = operator.endswith("IfExists")
    test = CONDITIONS.get(operator.removesuffix("IfExists"))
    values_by_key = {key.lower(): value for key, value in context.items()}
    for key, values in keys.items():
        value = values_by_key.get(key.lower())
        if operator == "Null":
            if (value is None) != (str(values).lower() == "true"):
                return False
            continue
        if value is None:
            if not if_exists:
                return False
        elif test is None or not test(value, [str(item) for item in listed(values)]):
            return False
    return True


def _equal(value: str, patterns: Iterable[str]) -> bool:
    return value in patterns


def _equal_ignoring_case(value: str, patterns: Iterable[str]) -> bool:
    return value.lower() in {item.lower() for item in patterns}


def _like(value: str, patterns: Iterable[str]) -> bool:
    """Return whether the value matches a pattern.

    A value that ends in `*` is known only up to there: it matches a pattern that agrees as far as
    both go.
    """
    prefix = value.removesuffix("*")
    return any(
        like(item, value) or (value.endswith("*") and item.startswith(prefix)) for item in patterns
    )


def _not(test: Callable[[str, Iterable[str]], bool]) -> Callable[[str, Iterable[str]], bool]:
    return lambda value, patterns: not test(value, patterns)


CONDITIONS: dict[str, Callable[[str, Iterable[str]], bool]] = {
    "StringEquals": _equal,
    "StringNotEquals": _not(_equal),
    "StringEqualsIgnoreCase": _equal_ignoring_case,
    "StringLike": _like,
    "StringNotLike": _not(_like),
    "ArnEquals": _like,
    "ArnLike": _like,
    "Bool": _equal_ignoring_case,
}


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    # its expressions take no time without end; of its syntax AWS's lacks the brackets
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")))


def like(pattern: str, value: str) -> bool:
    """Return whether a value matches AWS's pattern: `*` is any run, `?` one character."""
    return _pattern(pattern).fullmatch(value) is not None


def listed(value: Any) -> list[Any]:
    """Return a list, or the one value that a policy may write in its place."""
    return value if isinstance(value, list) else [value]
