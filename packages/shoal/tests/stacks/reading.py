"""Reads templates: their parts, and what of templates.yaml's rows is not so in them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from shoal.constructs.template_rules import as_list
from tests.settings.environment_file import CONTENT

if TYPE_CHECKING:
    import aws_cdk as cdk  # starts Node.js

Template = Mapping[str, Any]
Resources = dict[str, dict[str, Any]]
_CALLED = (
    *("AlarmName", "BucketName", "FunctionName", "Name", "QueueName", "ServiceName"),
    *("CidrBlock", "Description", "Endpoint"),
)
"""Properties by which `named` finds a resource, in addition to the start of its logical id."""


def template_of_stack(stack: cdk.Stack | None) -> Template:
    from aws_cdk.assertions import Template as Synthesised

    assert stack is not None
    template: dict[str, Any] = Synthesised.from_stack(stack).to_json()
    return template


def resources(template: Template, resource_type: str) -> Resources:
    """Return every resource of the type, by logical id."""
    every = template["Resources"].items()
    return {key: each for key, each in every if each["Type"] == resource_type}


def properties(template: Template, resource_type: str) -> list[dict[str, Any]]:
    return [each.get("Properties", {}) for each in resources(template, resource_type).values()]


def only(template: Template, resource_type: str) -> dict[str, Any]:
    """Return the properties of the one resource of the type."""
    (only_one,) = properties(template, resource_type)
    return only_one


def named(template: Template, resource_type: str, name: str) -> dict[str, Any]:
    """Return the properties of the one resource of the type that is called `name`."""
    (only_one,) = _named(template, resource_type, name).values()
    properties: dict[str, Any] = only_one.get("Properties", {})
    return properties


def _named(template: Template, resource_type: str, name: str) -> Resources:
    found = {
        key: each
        for key, each in resources(template, resource_type).items()
        if key.startswith(name) or name in map(each.get("Properties", {}).get, _CALLED)
    }
    assert len(found) == 1, f"{len(found)} of {resource_type} are called {name}"
    return found


def role(template: Template, name: str) -> tuple[str, dict[str, Any]]:
    """Return logical id and properties of the role whose physical name is `name`."""
    (found,) = _roles(template, name)
    return found


def _roles(template: Template, name: str) -> list[tuple[str, dict[str, Any]]]:
    roles = resources(template, "AWS::IAM::Role").items()
    called = (name, f"ml-{name}")
    every = ((key, each["Properties"]) for key, each in roles)
    return [(key, each) for key, each in every if each.get("RoleName") in called]


def statements(template: Template, role_name: str) -> dict[str, dict[str, Any]]:
    """Return the statements of every policy attached to the role, by Sid; the CDK's have none."""
    logical_id, _ = role(template, role_name)
    return {
        statement.get("Sid", ""): statement
        for policy in properties(template, "AWS::IAM::Policy")
        if {"Ref": logical_id} in policy["Roles"]
        for statement in policy["PolicyDocument"]["Statement"]
    }


def definition(template: Template) -> dict[str, Any]:
    """Return the pipeline definition as it is after deployment; each CDK token is its JSON text."""
    body = only(template, "AWS::SageMaker::Pipeline")["PipelineDefinition"]
    parts = body["PipelineDefinitionBody"]["Fn::Join"][1]
    texts = (
        each if isinstance(each, str) else json.dumps(json.dumps(each))[1:-1] for each in parts
    )
    document: dict[str, Any] = json.loads("".join(texts))
    return document


def violations(outdir: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each rule that a synth found broken, with the name of its pack."""
    report = json.loads((outdir / "validation-report.json").read_text())
    for plugin in report["pluginReports"]:
        yield from ((plugin["pluginName"], each) for each in plugin["violations"])


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


def differences(row: Row, template: Template) -> Iterator[str]:
    """Yield what is not as the row says."""
    fields = dict(row.fields)
    prefix = f"shoal-mnist-{row.environment}-us-east-1-"
    types = {each["Type"] for each in template["Resources"].values()}
    yield from (f"there is a {each}" for each in types.intersection(fields.pop("none", ())))
    if absent := fields.pop("no_role", ""):
        yield from (f"there is a role {absent}" for _ in _roles(template, prefix + absent))
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


def _found(fields: dict[str, Any], template: Template, prefix: str) -> Resources:
    """Take what says where to look out of `fields`, and return what is there."""
    if actor := fields.pop("role", ""):
        return {actor: {"Properties": statements(template, prefix + actor)}}
    if actor := fields.pop("trust", ""):
        (statement,) = role(template, prefix + actor)[1]["AssumeRolePolicyDocument"]["Statement"]
        return {actor: {"Properties": statement}}
    if output := fields.pop("output", ""):
        return {output: {"Properties": template["Outputs"][output]}}
    if where := fields.pop("named", ()):
        return _named(template, *where)
    if kind := fields.pop("one", ""):
        fields["count"] = 1
        return resources(template, kind)
    return resources(template, fields.pop("every", ""))


def _mismatches(expected: Any, actual: Any, where: str) -> Iterator[str]:
    if isinstance(expected, str) and expected.startswith("~"):
        if expected[1:] not in (actual if isinstance(actual, str) else json.dumps(actual)):
            yield f"{where} is {actual}, which has no {expected[1:]}"
    elif isinstance(expected, dict) and expected and expected.keys() <= {"some", "all_of"}:
        some = [expected["some"]] if "some" in expected else []
        for each in [*some, *expected.get("all_of", ())]:
            if all([*_mismatches(each, element, where)] for element in as_list(actual)):
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
