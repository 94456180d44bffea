"""A CloudFormation template, in JSON, or in YAML with short forms (`!Ref`)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import Any

import yaml

from shoal_local.errors import AwsError

invalid = partial(AwsError, "ValidationError")
"""CloudFormation's error for a template or request with a mistake."""

SUBSTITUTION = re.compile(r"\$\{([^!][^}]*)\}")
PSEUDO = "AWS::"
NAME = re.compile(r"^[A-Za-z0-9]+$")
# Resource types that need a capability, with the property that names the resource.
IAM_NAMES: Mapping[str, str] = {
    "AWS::IAM::AccessKey": "",
    "AWS::IAM::Group": "GroupName",
    "AWS::IAM::InstanceProfile": "InstanceProfileName",
    "AWS::IAM::ManagedPolicy": "ManagedPolicyName",
    "AWS::IAM::Policy": "",
    "AWS::IAM::Role": "RoleName",
    "AWS::IAM::User": "UserName",
    "AWS::IAM::UserToGroupAddition": "",
}
OF_OBJECTS = ("Parameters", "Rules", "Mappings", "Conditions", "Resources", "Outputs")
SECTIONS = frozenset({"AWSTemplateFormatVersion", "Description", "Metadata", *OF_OBJECTS})


class _Loader(yaml.SafeLoader):
    """Safe YAML with CloudFormation's short function tags; dates stay strings.

    Aliases are refused, as by CloudFormation (user guide, "Template formats"): a few lines of them
    make an endless document.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("YAML aliases are not allowed in CloudFormation templates")
        return super().compose_node(parent, index)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _function(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)  # type: ignore[arg-type]
    if suffix == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {suffix if suffix in {"Ref", "Condition"} else f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _function)


@dataclass(frozen=True)
class Template:
    """The sections of a template. `resources` keeps the template's order."""

    body: str
    document: Mapping[str, Any]

    @property
    def resources(self) -> Mapping[str, Mapping[str, Any]]:
        return dict(self.document["Resources"])

    def section(self, name: str) -> Mapping[str, Any]:
        return self.document.get(name) or {}

    @property
    def capability(self) -> str:
        """Return the capability that the template needs, "" if none.

        Source: CloudFormation API reference, CreateStack, Capabilities.
        """
        resources = self.resources.values()
        iam = [each for each in resources if str(each.get("Type")) in IAM_NAMES]
        is_named = any(
            IAM_NAMES[resource["Type"]] in (resource.get("Properties") or {}) for resource in iam
        )
        return "CAPABILITY_NAMED_IAM" if is_named else "CAPABILITY_IAM" if iam else ""

    def dependencies(self, logical_id: str) -> set[str]:
        """Return the resources that `logical_id` names in its properties or DependsOn."""
        resource = self.resources[logical_id]
        explicit = resource.get("DependsOn") or []
        referenced = {explicit} if isinstance(explicit, str) else set(explicit)
        return (referenced | set(references(resource.get("Properties", {})))) & set(self.resources)

    def order(self) -> list[str]:
        """Return the logical ids, dependencies first; raise AwsError for a circle."""
        graph = {name: sorted(self.dependencies(name)) for name in self.resources}
        try:
            return list(TopologicalSorter(graph).static_order())
        except CycleError as error:
            circle = ", ".join(error.args[1][:0:-1])
            raise invalid(f"Circular dependency between resources: [{circle}]") from error


NO_TEMPLATE = Template("{}", {"Resources": {}})


def parse(body: str) -> Template:
    """Return the template; raise AwsError (ValidationError), with the mistake, if it is none."""
    try:
        document = json.loads(body) if body.lstrip().startswith("{") else yaml.load(body, _Loader)  # noqa: S506 - a subclass of SafeLoader
        if not isinstance(document, dict) or not document.get("Resources"):
            raise invalid("Template format error: At least one Resources member must be defined.")
        template = Template(body, document)
        _check(template)
    except (ValueError, yaml.YAMLError) as error:
        raise invalid(f"Template format error: {error}") from error
    except (AttributeError, IndexError, TypeError) as error:
        raise invalid(f"Template format error: unsupported structure ({error}).") from error
    except RecursionError as error:
        raise invalid("Template format error: it is nested too deeply.") from error
    return template


def _check(template: Template) -> None:
    unknown = sorted(name for name in template.document if name not in SECTIONS)
    if unknown:
        raise invalid(
            f"Invalid template property or properties [{', '.join(unknown)}] (Shoal's emulator has"
            " no transforms)"
        )
    for section in OF_OBJECTS:
        if not all(isinstance(each, dict) for each in template.section(section).values()):
            raise invalid(f"Template format error: Any {section} member must be an object.")
    for name, parameter in template.section("Parameters").items():
        try:
            re.compile(parameter.get("AllowedPattern", ""))
        # Python does not read the pattern; CloudFormation has Java's syntax
        except (re.error, OverflowError):
            raise invalid(
                f"Template format error: [/Parameters/{name}] AllowedPattern must be a regular"
                " expression."
            ) from None
    for kind, section in (("Resource", "Resources"), ("Parameter", "Parameters")):
        for name, member in template.section(section).items():
            if not NAME.match(str(name)):
                raise invalid(f"Template format error: {kind} name {name} is non alphanumeric.")
            if not isinstance(member.get("Type"), str):
                raise invalid(
                    f"Template format error: [/{section}/{name}] Every {section} object must"
                    " contain a Type member."
                )
    names = set(template.resources) | set(template.section("Parameters"))
    for resource in template.resources.values():
        others = set(references(resource.get("Properties", {}))) - names
        missing = sorted(name for name in others if not name.startswith(PSEUDO))
        if missing:
            raise invalid(
                f"Template format error: Unresolved resource dependencies [{', '.join(missing)}] in"
                " the Resources block of the template"
            )
    template.order()


def references(value: Any) -> Iterator[str]:
    """Yield every name that Ref, Fn::GetAtt and Fn::Sub use inside `value`."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "Ref" and isinstance(inner, str):
                yield inner
            elif key == "Fn::GetAtt":
                yield inner.split(".")[0] if isinstance(inner, str) else inner[0]
            elif key == "Fn::Sub":
                yield from _substituted(inner)
            else:
                yield from references(inner)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def _substituted(value: Any) -> Iterator[str]:
    text, local = (value[0], value[1]) if isinstance(value, list) else (value, {})
    yield from references(local)
    for name in SUBSTITUTION.findall(text):
        if name not in local:
            yield name.split(".")[0]
