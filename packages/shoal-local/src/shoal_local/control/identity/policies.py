"""Resource policies (role trust, queue, function): whether a document allows a principal an action
on a resource, and what AWS refuses in one: its form, principals, actions and resources.

Evaluated are Principal, (Not)Action and (Not)Resource with wildcards, and the conditions
String*, Arn*, Bool and Null on the context keys that the caller of `allows` passes. A condition
on any other key does not match.

A mistake is a PolicyError, which `policy_guards` turns into the error of the service that got it.
"""

import fnmatch
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import botocore.session
from moto.iam.policy_validation import VALID_CONDITIONS

from shoal_local.tables import read_table


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
    test = CONDITIONS.get(operator.removesuffix("IfExists"))
    values_by_key = {key.lower(): value for key, value in context.items()}
    for key, values in keys.items():
        value = values_by_key.get(key.lower())
        if operator == "Null":
            is_met = (value is None) == (str(values).lower() == "true")
        elif value is None:
            is_met = operator.endswith("IfExists")
        else:
            is_met = test is not None and test(value, [str(item) for item in listed(values)])
        if not is_met:
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


Kind = str
"""A key of `messages` in `policies.yaml`, or one that a service says nothing special of."""
Statement = Mapping[str, Any]
VERSIONS = frozenset({"2008-10-17", "2012-10-17"})
ELEMENTS = frozenset(
    {
        *("Sid", "Effect", "Principal", "NotPrincipal", "Action", "NotAction", "Resource"),
        *("NotResource", "Condition"),
    }
)
PRINCIPAL_KINDS = frozenset({"AWS", "Service", "Federated", "CanonicalUser"})
OPERATOR = re.compile(r"^(?:ForAnyValue:|ForAllValues:)?(\w+?)(?:IfExists)?$")
SERVICE_PRINCIPAL = re.compile(r"^((?:[a-z0-9-]+\.)+)amazonaws\.com(?:\.cn)?$")
REGION = re.compile(r"^[a-z]{2}(?:-[a-z]+)+-\d$")


class PolicyError(Exception):
    """A mistake in a policy; `detail` says which value is wrong."""

    def __init__(self, kind: Kind, detail: str) -> None:
        super().__init__(detail)
        self.kind, self.detail = kind, detail


def parsed(text: str, required: Iterable[str]) -> list[Statement]:
    """Return the statements of a policy, each of which has the `required` elements.

    `Action` and `Resource` may be negated. Raises PolicyError.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PolicyError("json", f"it is not JSON: {error}") from error
    if not isinstance(document, Mapping):
        raise PolicyError("json", "it is not a JSON object")
    if document.get("Version", "2008-10-17") not in VERSIONS:
        raise PolicyError("version", f"Version is {' or '.join(sorted(VERSIONS))}")
    statements = listed(document.get("Statement", []))
    if not statements:
        raise PolicyError("statement", "it has no Statement")
    for statement in statements:
        _check_statement(statement, required)
    return statements


def _check_statement(statement: Any, required: Iterable[str]) -> None:
    if not isinstance(statement, Mapping):
        raise PolicyError("syntax", "a Statement is an object")
    if unknown := sorted(set(statement) - ELEMENTS):
        raise PolicyError("syntax", f"a Statement has no {unknown[0]}")
    if "Effect" in statement and statement["Effect"] not in {"Allow", "Deny"}:
        raise PolicyError("syntax", "Effect is Allow or Deny")
    for element in ("Effect", *required):
        if element not in statement and f"Not{element}" not in statement:
            kind = "no principal" if element == "Principal" else "element"
            raise PolicyError(kind, f"a Statement lacks {element}")
    for element in ("Action", "NotAction", "Resource", "NotResource"):
        if not all(isinstance(each, str) for each in listed(statement.get(element, []))):
            raise PolicyError("syntax", f"{element} is text or a list of it")
    _check_conditions(statement.get("Condition", {}))


def _check_conditions(conditions: Any) -> None:
    if not isinstance(conditions, Mapping):
        raise PolicyError("syntax", "Condition is an object")
    for operator, keys in conditions.items():
        match = OPERATOR.match(operator)
        if match is None or match[1] not in VALID_CONDITIONS:
            raise PolicyError("syntax", f"there is no condition operator {operator}")
        if not isinstance(keys, Mapping):
            raise PolicyError("syntax", f"{operator} has an object of condition keys")


def check_principals(statements: Iterable[Statement], exists: Callable[[str], bool]) -> None:
    """Raise PolicyError for a statement without Principal, and for one who does not exist.

    `exists(name)` says it of a name below AWS. Federated and canonical users are not looked up.
    """
    for statement in statements:
        names = statement.get("Principal", statement.get("NotPrincipal"))
        if names == "*":
            continue
        if not isinstance(names, Mapping) or not names:
            raise PolicyError("no principal", "a Statement has no Principal")
        for kind, values in names.items():
            for name in listed(values):
                if not isinstance(name, str) or not _is_known(kind, name, exists):
                    shown = "SERVICE" if kind == "Service" else kind
                    raise PolicyError("principal", f'"{shown}":"{name}"')


def _is_known(kind: str, name: str, exists: Callable[[str], bool]) -> bool:
    if kind == "AWS":
        return exists(name)
    return is_service(name) if kind == "Service" else kind in PRINCIPAL_KINDS


def is_service(name: str) -> bool:
    """Return whether there is such a service principal, as far as botocore knows AWS's services.

    `delivery.logs.amazonaws.com` and `logs.us-east-1.amazonaws.com` are of the service logs.
    """
    match = SERVICE_PRINCIPAL.match(name)
    labels = [label for label in match[1].split(".") if label] if match else []
    services = [label for label in labels if not REGION.match(label)]
    return bool(services) and services[-1] in _services()


@cache
def _services() -> frozenset[str]:
    session = botocore.session.Session()
    regional: Iterable[str] = session.get_data("endpoints")["partitions"][0]["services"]
    others: str = tables()["other principals"]
    return frozenset({*session.get_available_services(), *regional, *others.split()})


def check_actions(statements: Iterable[Statement], service: str) -> None:
    """Raise PolicyError for an action that the service does not have, or one of another service."""
    for statement in statements:
        for action in _named(statement, "Action"):
            if not any(matching(action, service, names) for names in actions_of(service)):
                raise PolicyError("action", f"{service} has no action {action}")


def check_bucket_resources(statements: Iterable[Statement], bucket: str) -> None:
    """Raise PolicyError for a resource outside of the bucket, and an action that none can have."""
    bucket_actions, object_actions = actions_of("s3")
    for statement in statements:
        resources = [arn.removeprefix("arn:aws:s3:::") for arn in _named(statement, "Resource")]
        for resource in resources:
            name = resource.partition("/")[0]
            if not like(name, bucket) or not name.strip("*"):
                raise PolicyError("resource", f"{resource} is not in the bucket {bucket}")
        if "Resource" not in statement:
            continue
        possible = frozenset().union(
            bucket_actions if any(like(each, bucket) for each in resources) else (),
            object_actions if any("/" in each or "*" in each for each in resources) else (),
        )
        for action in listed(statement.get("Action", [])):
            if not matching(action, "s3", possible):
                raise PolicyError("mismatch", f"{action} does not apply to {', '.join(resources)}")


def matching(pattern: str, service: str, names: Iterable[str]) -> bool:
    """Return whether an action of a policy (`s3:Get*`) covers one of the service's actions."""
    folded = pattern.lower()
    return any(like(folded, f"{service}:{name}".lower()) for name in names)


@cache
def actions_of(service: str) -> tuple[frozenset[str], ...]:
    """Return the names of the service's actions: for s3 those on a bucket and those on an object.

    A policy on a bucket cannot have others.
    """
    names: Mapping[str, str] = tables()["actions"]
    keys = ("s3 bucket", "s3 object") if service == "s3" else (service,)
    return tuple(frozenset(names[key].split()) for key in keys)


@cache
def tables() -> Mapping[str, Any]:
    """Return what policies.yaml holds: wordings, actions and principals."""
    return dict(read_table(Path(__file__).with_suffix(".yaml")))


def _named(statement: Statement, element: str) -> list[str]:
    return listed(statement.get(element, statement.get(f"Not{element}", [])))
