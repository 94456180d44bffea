"""Template parameters and rules: values and defaults are checked, converted, and looked up in the
Parameter Store.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from shoal_local.control.cloudformation.resolver import Resolver
from shoal_local.control.cloudformation.template import Template, invalid

SSM_VALUE = "AWS::SSM::Parameter::Value<"


def resolved_parameters(
    template: Template, values: Mapping[str, str], parameter_store: Callable[[str], str]
) -> dict[str, Any]:
    """Return the value of every parameter.

    Raise AwsError (ValidationError) for one that is missing, unknown or not allowed.
    """
    declared = template.section("Parameters")
    unknown = sorted(set(values) - set(declared))
    if unknown:
        raise invalid(f"Parameters: [{', '.join(unknown)}] do not exist in the template")
    defaults = {name: each["Default"] for name, each in declared.items() if "Default" in each}
    texts = {**defaults, **values}
    missing = [name for name in declared if name not in texts]
    if missing:
        raise invalid(f"Parameters: [{', '.join(missing)}] must have values")
    return {
        name: _value(name, parameter, str(texts[name]), parameter_store)
        for name, parameter in declared.items()
    }


def _value(
    name: str, parameter: Mapping[str, Any], text: str, parameter_store: Callable[[str], str]
) -> Any:
    kind = str(parameter["Type"])
    _check(name, parameter, text)
    if kind.startswith(SSM_VALUE):
        text, kind = parameter_store(text), kind.removeprefix(SSM_VALUE).removesuffix(">")
    if kind == "CommaDelimitedList" or kind.startswith("List<"):
        return [item.strip() for item in text.split(",")] if text else []
    return text


def _check(name: str, parameter: Mapping[str, Any], text: str) -> None:
    allowed = [str(value) for value in parameter.get("AllowedValues", [])]
    if allowed and text not in allowed:
        raise invalid(f"Parameter '{name}' must be one of AllowedValues: {', '.join(allowed)}")
    pattern = parameter.get("AllowedPattern")
    if pattern and not re.fullmatch(pattern, text):
        raise invalid(f"Parameter '{name}' must match pattern {pattern}")
    if parameter["Type"] == "Number" and not re.fullmatch(r"-?\d+(\.\d+)?", text):
        raise invalid(f"Parameter '{name}' must be a number, not '{text}'")


def check_rules(template: Template, resolver: Resolver) -> None:
    """Raise AwsError, in the rule's own words, if a rule of the template does not hold."""
    for name, rule in template.section("Rules").items():
        if "RuleCondition" in rule and not resolver.test(rule["RuleCondition"]):
            continue
        for assertion in rule["Assertions"]:
            if not resolver.test(assertion["Assert"]):
                raise invalid(
                    f"Rule {name} does not hold:"
                    f" {assertion.get('AssertDescription', assertion['Assert'])}"
                )
