"""A CloudFormation template, in JSON or YAML as the CDK writes it, and its intrinsic functions."""

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import Any

import yaml

from shoal_local.errors import AwsError

invalid = partial(AwsError, "ValidationError")
"""CloudFormation's error for a template or request with a mistake."""

SUBSTITUTION = re.compile(r"\$\{([^!][^}]*)\}")
PSEUDO = "AWS::"
OF_OBJECTS = ("Parameters", "Rules", "Mappings", "Conditions", "Resources", "Outputs")
SECTIONS = frozenset({"AWSTemplateFormatVersion", "Description", "Metadata", *OF_OBJECTS})


class _Loader(yaml.SafeLoader):
    """Safe YAML without aliases, which CloudFormation refuses (user guide, "Template formats"): a
    few lines of them make an endless document.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("YAML aliases are not allowed in CloudFormation templates")
        return super().compose_node(parent, index)


_Loader.yaml_implicit_resolvers = {  # a date is a text, as `Version` of a policy
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


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
    except (AttributeError, IndexError, TypeError, RecursionError) as error:
        raise invalid(f"Template format error: unsupported structure ({error}).") from error
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
    for resource in template.section("Resources").values():
        dict(resource.get("Properties") or {})  # else a TypeError, as of all that has another form
    for section in ("Resources", "Parameters"):
        for name, member in template.section(section).items():
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


DYNAMIC = re.compile(r"\{\{resolve:([^:}]+):([^}]+)\}\}")
ZONES = ("a", "b", "c")
UNRESOLVED = (TypeError, ValueError, IndexError, KeyError, AttributeError, RecursionError)
"""Errors of functions with arguments of another form, or that lead back to themselves."""


class NoValue:
    """The value of `AWS::NoValue`: a property or list item that has it is left out."""


NO_VALUE = NoValue()


@dataclass
class Resolver:
    """Resolves values of one stack.

    `physical_id` and `attribute` look resources up, and raise AwsError for one that does not exist.
    """

    template: Template
    pseudo: Mapping[str, Any]
    parameters: Mapping[str, Any]
    physical_id: Callable[[str], str]
    attribute: Callable[[str, str], Any]
    import_value: Callable[[str], str]
    parameter_store: Callable[[str], str]
    _conditions: dict[str, bool] = field(default_factory=dict)

    def __call__(self, value: Any) -> Any:
        """Return `value` with every function resolved; it may be NO_VALUE itself."""
        if isinstance(value, dict):
            if len(value) == 1:
                name, argument = next(iter(value.items()))
                if name == "Ref" or name.startswith("Fn::"):
                    if name not in FUNCTIONS:
                        raise invalid(f"Template error: Shoal's emulator has no function {name}")
                    return self._resolved(name, FUNCTIONS[name], argument)
            resolved = {key: self(inner) for key, inner in value.items()}
            return {key: inner for key, inner in resolved.items() if inner is not NO_VALUE}
        if isinstance(value, list):
            return [inner for inner in (self(item) for item in value) if inner is not NO_VALUE]
        return self._dynamic(value) if isinstance(value, str) else value

    def condition(self, name: str) -> bool:
        """Return whether the condition of this name holds."""
        if name not in self._conditions:
            conditions = self.template.section("Conditions")
            if name not in conditions:
                raise invalid(f"Template format error: Unresolved condition {name}")
            self._conditions[name] = self.test(conditions[name])
        return self._conditions[name]

    def test(self, expression: Any) -> bool:
        """Return whether the expression of a condition or rule is true."""
        if isinstance(expression, dict) and len(expression) == 1:
            name, argument = next(iter(expression.items()))
            if name in TESTS:
                return bool(self._resolved(name, TESTS[name], argument))
        text = json.dumps(expression, default=str)
        raise invalid(f"Template format error: this is no condition: {text}")

    def _resolved(
        self, name: str, function: "Callable[[Resolver, Any], Any]", argument: Any
    ) -> Any:
        try:
            return function(self, argument)
        except UNRESOLVED as error:
            endless = isinstance(error, RecursionError)
            reason = "it leads back to itself" if endless else repr(error)
            raise invalid(f"Template error: {name} cannot be resolved: {reason}") from error

    def ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return NO_VALUE
        if name in self.pseudo:
            return self.pseudo[name]
        if name in self.parameters:
            return self.parameters[name]
        return self.physical_id(name)

    def get_att(self, argument: Any) -> Any:
        logical_id, _, attribute = (
            argument.partition(".")
            if isinstance(argument, str)
            else (argument[0], ".", str(self(argument[1])))
        )
        return self.attribute(logical_id, attribute)

    def sub(self, argument: Any) -> str:
        text, local = (argument[0], argument[1]) if isinstance(argument, list) else (argument, {})

        def value_of(match: re.Match[str]) -> str:
            name = match.group(1)
            if name in local:
                return str(self(local[name]))
            return str(self.get_att(name) if "." in name else self.ref(name))

        return SUBSTITUTION.sub(value_of, text).replace("${!", "${")

    def find_in_map(self, argument: list[Any]) -> Any:
        mapping, first, second = [self(item) for item in argument]
        return self(self.template.section("Mappings")[mapping][first][second])

    def _dynamic(self, text: str) -> str:
        def value_of(match: re.Match[str]) -> str:
            if match.group(1) != "ssm":
                raise invalid(
                    f"Shoal's emulator resolves ssm references only, not {match.group(0)}"
                )
            return self.parameter_store(match.group(2).split(":")[0])

        return DYNAMIC.sub(value_of, text) if "{{resolve:" in text else text


def _zones(resolver: Resolver, argument: Any) -> list[str]:
    region = resolver(argument) or resolver.pseudo["AWS::Region"]
    return [f"{region}{zone}" for zone in ZONES]


FUNCTIONS: dict[str, Callable[[Resolver, Any], Any]] = {
    "Ref": Resolver.ref,
    "Fn::GetAtt": Resolver.get_att,
    "Fn::Sub": Resolver.sub,
    "Fn::Join": lambda resolver, argument: str(argument[0]).join(map(str, resolver(argument[1]))),
    "Fn::Split": lambda resolver, argument: resolver(argument[1]).split(argument[0]),
    "Fn::Select": lambda resolver, argument: resolver(argument[1])[int(resolver(argument[0]))],
    "Fn::If": lambda resolver, argument: resolver(
        argument[1] if resolver.condition(argument[0]) else argument[2]
    ),
    "Fn::FindInMap": Resolver.find_in_map,
    "Fn::Base64": lambda resolver, argument: base64.b64encode(
        str(resolver(argument)).encode()
    ).decode(),
    "Fn::GetAZs": _zones,
    "Fn::ImportValue": lambda resolver, argument: resolver.import_value(str(resolver(argument))),
}

TESTS: dict[str, Callable[[Resolver, Any], bool]] = {
    "Condition": Resolver.condition,
    "Fn::Equals": lambda resolver, argument: bool(resolver(argument[0]) == resolver(argument[1])),
    "Fn::Not": lambda resolver, argument: not resolver.test(argument[0]),
    "Fn::And": lambda resolver, argument: all(resolver.test(item) for item in argument),
    "Fn::Or": lambda resolver, argument: any(resolver.test(item) for item in argument),
    "Fn::Contains": lambda resolver, argument: resolver(argument[1]) in resolver(argument[0]),
}
