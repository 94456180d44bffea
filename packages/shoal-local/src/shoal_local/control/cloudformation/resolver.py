"""Intrinsic functions of templates."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal_local.control.cloudformation.template import SUBSTITUTION, Template, invalid

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
                    return self._function(name, argument)
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

    def pruned(self, value: Any) -> Any:
        """Return `value` with the branch of every Fn::If that its condition chooses."""
        if isinstance(value, dict):
            if set(value) == {"Fn::If"}:
                condition, if_true, if_false = value["Fn::If"]
                return self.pruned(if_true if self.condition(condition) else if_false)
            return {key: self.pruned(inner) for key, inner in value.items()}
        return [self.pruned(item) for item in value] if isinstance(value, list) else value

    def _function(self, name: str, argument: Any) -> Any:
        if name not in FUNCTIONS:
            raise invalid(f"Template error: Shoal's emulator has no function {name}")
        return self._resolved(name, FUNCTIONS[name], argument)

    def _resolved(self, name: str, function: Callable[[Resolver, Any], Any], argument: Any) -> Any:
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
    "Ref": lambda resolver, name: resolver.ref(name),
    "Fn::GetAtt": lambda resolver, argument: resolver.get_att(argument),
    "Fn::Sub": lambda resolver, argument: resolver.sub(argument),
    "Fn::Join": lambda resolver, argument: str(argument[0]).join(map(str, resolver(argument[1]))),
    "Fn::Split": lambda resolver, argument: resolver(argument[1]).split(argument[0]),
    "Fn::Select": lambda resolver, argument: resolver(argument[1])[int(resolver(argument[0]))],
    "Fn::If": lambda resolver, argument: resolver(
        argument[1] if resolver.condition(argument[0]) else argument[2]
    ),
    "Fn::FindInMap": lambda resolver, argument: resolver.find_in_map(argument),
    "Fn::Base64": lambda resolver, argument: base64.b64encode(
        str(resolver(argument)).encode()
    ).decode(),
    "Fn::GetAZs": _zones,
    "Fn::ImportValue": lambda resolver, argument: resolver.import_value(str(resolver(argument))),
}

TESTS: dict[str, Callable[[Resolver, Any], bool]] = {
    "Condition": lambda resolver, name: resolver.condition(name),
    "Fn::Equals": lambda resolver, argument: bool(resolver(argument[0]) == resolver(argument[1])),
    "Fn::Not": lambda resolver, argument: not resolver.test(argument[0]),
    "Fn::And": lambda resolver, argument: all(resolver.test(item) for item in argument),
    "Fn::Or": lambda resolver, argument: any(resolver.test(item) for item in argument),
    "Fn::Contains": lambda resolver, argument: resolver(argument[1]) in resolver(argument[0]),
}
