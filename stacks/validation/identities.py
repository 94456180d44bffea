"""Roles, where cdk-nag does not look: on whose behalf a service may assume one, and that one is passed by its name to one service."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from stacks.validation.findings import Finding, Template, as_list, resources

TRUST = "SHOAL-RoleTrust"
PASS = "SHOAL-PassRole"  # noqa: S105 - the name of a rule
_ACCOUNT_KEY = "aws:SourceAccount"


def check(template: Template) -> Iterator[Finding]:
    """Every broken rule of the template's roles and policies."""
    for logical_id, properties in resources(template, "AWS::IAM::Role"):
        for statement in as_list(properties["AssumeRolePolicyDocument"]["Statement"]):
            if "Service" in statement.get("Principal", {}) and _ACCOUNT_KEY not in json.dumps(statement.get("Condition", {})):
                yield Finding(TRUST, logical_id, f"any account's service may assume it; add a condition on {_ACCOUNT_KEY}")
    for logical_id, properties in resources(template, "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
        for statement in as_list(properties["PolicyDocument"]["Statement"]):
            yield from (Finding(PASS, logical_id, text) for text in _pass_mistakes(statement))


def _pass_mistakes(statement: Mapping[str, Any]) -> Iterator[str]:
    actions = {str(action).lower() for action in as_list(statement.get("Action", []))}
    if statement["Effect"] != "Allow" or not actions & {"iam:passrole", "iam:*", "*"}:
        return
    if "*" in json.dumps(statement.get("Resource")):
        yield "passes roles by a pattern; name each role"
    if "iam:PassedToService" not in json.dumps(statement.get("Condition", {})):
        yield "passes roles to any service; add a condition on iam:PassedToService"
