"""Reads templates: their parts, and what of templates.yaml's rows is not so in them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.settings.releases import CONTENT

if TYPE_CHECKING:
    from aws_cdk.assertions import Template  # starts Node.js

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


Resources = dict[str, dict[str, Any]]
_CALLED = (
    *("AlarmName", "BucketName", "FunctionName", "Name", "QueueName", "ServiceName"),
    *("CidrBlock", "Description", "Endpoint"),
)
"""Properties by which `named` finds a resource, beside the start of its logical id."""
_TABLE = yaml.safe_load(Path(__file__).with_name("templates.yaml").read_text(encoding="utf-8"))
ENVIRONMENTS: dict[str, dict[str, Any]] = {
    name: sections | ({"release": CONTENT} if "release" in sections else {})
    for name, sections in _TABLE["environments"].items()
}


@dataclass(frozen=True)
class Row:
    """One row of the table."""

    environment: str
    stack: str
    """Its part: network, data, file-system, image, pipeline, monitoring, serving."""
    title: str
    fields: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.environment}/{self.stack}: {self.title}"


def rows() -> list[Row]:
    return [
        Row(environment, stack, title, fields)
        for place, by_title in _TABLE["rows"].items()
        for environment, stack in [place.split("/")]
        for title, fields in by_title.items()
    ]


def differences(row: Row, template: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is not as the row says."""
    fields, every = dict(row.fields), template["Resources"]
    prefix = f"shoal-mnist-{row.environment}-us-east-1-"
    types = {each["Type"] for each in every.values()}
    yield from (f"there is a {each}" for each in types.intersection(fields.pop("none", ())))
    if absent := fields.pop("no_role", ""):
        yield from (f"there is a role {absent}" for _ in _roles(every, prefix + absent))
    if allowed := fields.pop("only", ()):
        yield from (f"there is a {each}" for each in types - {*allowed})
    found = _found(fields, template, prefix)
    expected = {key: fields.pop(key) for key in ("has", "lacks", "beside", "sids") if key in fields}
    if expected and not found:
        yield f"nothing is found for {row.fields}"
    count = fields.pop("count", len(found))
    if count != len(found):
        yield f"there are {len(found)}, not {count}: {[*found]}"
    if fields:
        yield f"unknown fields: {fields}"
    for key, each in found.items():
        inner = each.get("Properties", {})
        if "sids" in expected and {*inner} != {*expected["sids"]}:
            yield f"{key} has {sorted(inner)}"
        lacking = expected.get("has", {}) | {"lacks": expected.get("lacks", [])}
        yield from _mismatches(lacking, inner, key)
        yield from _mismatches(expected.get("beside", {}), each, key)


def _found(
    fields: dict[str, Any], template: Mapping[str, Any], prefix: str
) -> dict[str, dict[str, Any]]:
    """Take what says where to look out of `fields`, and return what is there."""
    every: Resources = template["Resources"]
    if actor := fields.pop("role", ""):
        return {actor: {"Properties": _statements(every, prefix + actor)}}
    if actor := fields.pop("trust", ""):
        ((_, role),) = _roles(every, prefix + actor)
        (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
        return {actor: {"Properties": statement}}
    if output := fields.pop("output", ""):
        return {output: {"Properties": template["Outputs"][output]}}
    if where := fields.pop("named", ()):
        kind, name = where
        found = {key: each for key, each in _of_type(every, kind).items() if _is(name, key, each)}
        assert len(found) == 1, f"{len(found)} of {kind} are called {name}"
        return found
    if kind := fields.pop("one", ""):
        fields["count"] = 1
        return _of_type(every, kind)
    return _of_type(every, fields.pop("every", ""))


def _of_type(every: Resources, kind: str) -> Resources:
    return {key: each for key, each in every.items() if each["Type"] == kind}


def _is(name: str, key: str, resource: dict[str, Any]) -> bool:
    properties = resource.get("Properties", {})
    return key.startswith(name) or name in [properties.get(each) for each in _CALLED]


def _roles(every: Resources, name: str) -> list[tuple[str, dict[str, Any]]]:
    roles = {key: each["Properties"] for key, each in _of_type(every, "AWS::IAM::Role").items()}
    called = (name, f"ml-{name}")
    return [(key, each) for key, each in roles.items() if each.get("RoleName") in called]


def _statements(every: Resources, name: str) -> dict[str, Any]:
    """Return the statements of a role's policies by their Sid."""
    ((logical_id, _),) = _roles(every, name)
    policies = [each["Properties"] for each in _of_type(every, "AWS::IAM::Policy").values()]
    return {
        statement["Sid"]: statement
        for policy in policies
        if {"Ref": logical_id} in policy["Roles"]
        for statement in policy["PolicyDocument"]["Statement"]
    }


def _mismatches(expected: Any, actual: Any, where: str) -> Iterator[str]:
    if isinstance(expected, str) and expected.startswith("~"):
        if expected[1:] not in (actual if isinstance(actual, str) else json.dumps(actual)):
            yield f"{where} is {actual}, which has no {expected[1:]}"
    elif isinstance(expected, dict) and expected and expected.keys() <= {"some", "all_of"}:
        some = [expected["some"]] if "some" in expected else []
        for each in [*some, *expected.get("all_of", ())]:
            if all([*_mismatches(each, element, where)] for element in _as_list(actual)):
                yield f"{where} is {actual}, of which none is {each}"
    elif isinstance(expected, dict) and isinstance(actual, dict):
        yield from (f"{where} has {each}" for each in expected.get("lacks", ()) if each in actual)
        for key, value in expected.items():
            if key != "lacks":
                yield from _mismatches(value, actual.get(key), f"{where}.{key}")
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for number, (one, other) in enumerate(zip(expected, actual, strict=True)):
            yield from _mismatches(one, other, f"{where}[{number}]")
    elif expected != actual:
        yield f"{where} is {actual}, not {expected}"


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
