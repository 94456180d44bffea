"""Reads the parts of a template of aws_cdk.assertions that tests look at."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aws_cdk.assertions import Template

_NAMES = ("Name", "FunctionName", "BucketName", "AlarmName")


def resources(template: Template, resource_type: str) -> dict[str, dict[str, Any]]:
    """Return every resource of the type, by logical id."""
    return {key: dict(value) for key, value in template.find_resources(resource_type).items()}


def properties(template: Template, resource_type: str) -> list[dict[str, Any]]:
    return [
        resource.get("Properties", {}) for resource in resources(template, resource_type).values()
    ]


def only(template: Template, resource_type: str) -> dict[str, Any]:
    """Return the properties of the one resource of the type."""
    (only_one,) = properties(template, resource_type)
    return only_one


def named(template: Template, resource_type: str, name: str) -> dict[str, Any]:
    """Return the properties of the one resource of the type that is called `name`."""
    (only_one,) = [
        each
        for each in properties(template, resource_type)
        if name in (each.get(key) for key in _NAMES)
    ]
    return only_one


def role(template: Template, name: str) -> tuple[str, dict[str, Any]]:
    """Return logical id and properties of the role whose physical name is `name`."""
    ((logical_id, resource),) = [
        (key, value)
        for key, value in resources(template, "AWS::IAM::Role").items()
        if value["Properties"].get("RoleName") == name
    ]
    return logical_id, resource["Properties"]


def statements(template: Template, role_name: str) -> dict[str, dict[str, Any]]:
    """Return the statements of every policy attached to the role, by Sid; the CDK's have none."""
    logical_id, _ = role(template, role_name)
    policies = [
        policy
        for policy in properties(template, "AWS::IAM::Policy")
        if {"Ref": logical_id} in policy["Roles"]
    ]
    return {
        entry.get("Sid", ""): entry
        for policy in policies
        for entry in policy["PolicyDocument"]["Statement"]
    }


def definition(template: Template) -> dict[str, Any]:
    """Return the pipeline definition as it is after deployment; each CDK token is its JSON text."""
    (pipeline,) = properties(template, "AWS::SageMaker::Pipeline")
    parts = pipeline["PipelineDefinition"]["PipelineDefinitionBody"]["Fn::Join"][1]
    document: dict[str, Any] = json.loads(
        "".join(part if isinstance(part, str) else _escaped(part) for part in parts)
    )
    return document


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _escaped(token: Mapping[str, Any]) -> str:
    return json.dumps(json.dumps(token))[1:-1]
