"""Roles, where cdk-nag does not look: a service may assume one only on behalf of an account, and a
role is passed by its name to one service.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from shoal.constructs.validation.findings import Finding, Template, as_list, resources

TRUST = "SHOAL-RoleTrust"
PASS = "SHOAL-PassRole"  # noqa: S105 - the name of a rule
_ACCOUNT_KEY = "aws:SourceAccount"


def check(template: Template) -> Iterator[Finding]:
    """Yield every broken rule of the template's roles and policies."""
    for logical_id, properties in resources(template, "AWS::IAM::Role"):
        for statement in as_list(properties["AssumeRolePolicyDocument"]["Statement"]):
            yield from (Finding(TRUST, logical_id, text) for text in _trust_mistakes(statement))
    for logical_id, document in _documents(template):
        for statement in as_list(document["Statement"]):
            yield from (Finding(PASS, logical_id, text) for text in _pass_mistakes(statement))


def _documents(template: Template) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every identity policy with the logical id of its resource: separate policies, and those
    inside a role.
    """
    for logical_id, properties in resources(
        template, "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"
    ):
        yield logical_id, properties["PolicyDocument"]
    for logical_id, properties in resources(template, "AWS::IAM::Role"):
        for policy in properties.get("Policies", []):
            yield logical_id, policy["PolicyDocument"]


def _trust_mistakes(statement: Mapping[str, Any]) -> Iterator[str]:
    if statement["Effect"] != "Allow":
        return
    principal = statement.get("Principal", {})
    named = principal if isinstance(principal, Mapping) else {"AWS": principal}
    if "*" in as_list(named.get("AWS", [])):
        yield "anybody may assume it; name who may"
    if "Service" in named and _ACCOUNT_KEY not in json.dumps(statement.get("Condition", {})):
        yield f"any account's service may assume it; add a condition on {_ACCOUNT_KEY}"


def _pass_mistakes(statement: Mapping[str, Any]) -> Iterator[str]:
    actions = {str(action).lower() for action in as_list(statement.get("Action", []))}
    if statement["Effect"] != "Allow" or not actions & {"iam:passrole", "iam:*", "*"}:
        return
    if "*" in json.dumps(statement.get("Resource")):
        yield "passes roles by a pattern; name each role"
    if "iam:PassedToService" not in json.dumps(statement.get("Condition", {})):
        yield "passes roles to any service; add a condition on iam:PassedToService"
