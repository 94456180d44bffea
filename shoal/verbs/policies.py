"""IAM policies in a canonical form, in which two of the same meaning are equal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from shoal.verbs.assembly import Json
from shoal.verbs.deployed_stack import DeployedStack

_LISTS = frozenset({"Action", "NotAction", "Resource", "NotResource"})


def of_role(stack: DeployedStack, logical_id: str) -> Json:
    """Return what the template gives the role: trust, inline policies by name, attached ones,
    boundary.

    Raises UnknownValueError.
    """
    properties = stack.of_type("AWS::IAM::Role")[logical_id]
    inline = {each["PolicyName"]: each["PolicyDocument"] for each in properties.get("Policies", [])}
    for policy in stack.of_type("AWS::IAM::Policy").values():
        if {"Ref": logical_id} in policy.get("Roles", []):
            inline[policy["PolicyName"]] = policy["PolicyDocument"]
    attached = stack.value(properties.get("ManagedPolicyArns", []))
    return {
        "trust": canonical(stack.value(properties["AssumeRolePolicyDocument"])),
        "inline": {
            str(name): canonical(stack.value(document)) for name, document in inline.items()
        },
        "attached": sorted(attached),
        "boundary": stack.value(properties["PermissionsBoundary"])
        if "PermissionsBoundary" in properties
        else None,
    }


def canonical(document: Mapping[str, Any]) -> Json:
    """Return the document with sorted lists, and its statements sorted by Sid and content."""
    statements = (
        document["Statement"]
        if isinstance(document["Statement"], list)
        else [document["Statement"]]
    )
    canonical_statements = [_statement(each) for each in statements]
    return {
        "Statement": sorted(
            canonical_statements,
            key=lambda each: (each.get("Sid", ""), json.dumps(each, sort_keys=True)),
        )
    }


def _statement(statement: Mapping[str, Any]) -> Json:
    result: Json = {
        key: _sorted(value) if key in _LISTS else value for key, value in statement.items()
    }
    for key in ("Principal", "NotPrincipal"):
        if isinstance(statement.get(key), Mapping):
            result[key] = {kind: _sorted(each) for kind, each in statement[key].items()}
    if "Condition" in statement:
        result["Condition"] = {
            test: {key: _sorted(each) for key, each in keys.items()}
            for test, keys in statement["Condition"].items()
        }
    return result


def _sorted(value: Any) -> list[str]:
    """Return one or several values as a sorted list; IAM writes a condition's booleans as text."""
    values = value if isinstance(value, list) else [value]
    return sorted({str(each).lower() if isinstance(each, bool) else str(each) for each in values})
