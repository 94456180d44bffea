"""A question as a rule file has it, which the parameters of a call complete."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import jmespath
from jmespath.parser import ParsedResult

from shoal_local.control.authorization.rule_functions import FUNCTIONS, RuleFunctions, RuleInput
from shoal_local.control.http.iam_request import ANY, ContextValue, Question

FIELD = re.compile(r"\{([^{}]+)\}")
Tags = Literal["both", "request", "resource", "none"]


class Scope:
    """The variables of a rule's expressions for one call.

    They are the call's parameters, `account`, `region`, `operation`, `request_tags` (empty when
    the call gives no tags), `first_resource` (of the rule's first question) and `each` (of
    `for_each`).
    """

    def __init__(self, rule_input: RuleInput) -> None:
        self.input = rule_input
        self._functions = RuleFunctions(rule_input)
        self._options = jmespath.Options(custom_functions=self)
        self.variables: dict[str, Any] = {
            **rule_input.call.parameters,
            "account": rule_input.account,
            "region": rule_input.region,
            "operation": rule_input.call.operation,
            "request_tags": rule_input.request_tags(),
        }

    def value(self, expression: ParsedResult) -> Any:
        return expression.search(self.variables, self._options)

    def call_function(self, name: str, arguments: list[Any]) -> Any:
        """Call a function of an expression; JMESPath does."""
        return FUNCTIONS[name](self._functions, *arguments)


class Template:
    """Text with expressions in braces."""

    def __init__(self, text: str) -> None:
        texts = FIELD.split(text)  # literal, expression, literal, ..., literal
        self._parts: list[str | ParsedResult] = [
            jmespath.compile(part) if index % 2 else part for index, part in enumerate(texts)
        ]
        self._is_expression = len(texts) == 3 and not texts[0] and not texts[2]
        self._ends_in_name = len(texts) > 2 and texts[-3].endswith("/") and not texts[-1]

    def text(self, scope: Scope) -> str:
        """Return the text; a value that the request does not have is `*`."""
        return "".join(self._texts(scope))

    def arn(self, scope: Scope, service: str) -> str:
        """Return the ARN of a resource of the service, or `*`.

        - A template that is one expression is the ARN.
        - Any other may leave out the part of the ARN before the resource.
        - If it ends in a slash and an expression, the request may name the resource by its ARN.
        """
        texts = self._texts(scope)
        if self._ends_in_name and texts[-2].startswith("arn:"):
            return texts[-2]
        text = "".join(texts)
        if self._is_expression or text == ANY or text.startswith("arn:"):
            return text
        return scope.input.arn(service, text)

    def _texts(self, scope: Scope) -> list[str]:
        values = [part if isinstance(part, str) else scope.value(part) for part in self._parts]
        return [ANY if value is None else str(value) for value in values]


@dataclass(frozen=True)
class QuestionTemplate:
    """One question of a rule.

    - `service`: the service in actions and ARNs.
    - `action`: by default the operation.
    - `for_each`: a list, with a question for each item. One value counts as a list.
    - `only_if`: there is no question if this is false or empty.
    - `conditions`: expressions by condition key. A key that ends in `*` takes a map: each key of
      the map replaces the star.
    - `tags`: the tags that become condition keys, those of the request or of the resource.
    - `source`: the documentation, if AWS asks on the caller's behalf.
    """

    service: str
    resource: Template
    action: Template | None = None
    for_each: ParsedResult | None = None
    only_if: ParsedResult | None = None
    conditions: Mapping[str, ParsedResult] = field(default_factory=dict)
    tags: Tags = "both"
    source: str = ""

    def questions(self, scope: Scope) -> Iterator[Question]:
        items = scope.value(self.for_each) if self.for_each else ANY
        for item in items if isinstance(items, list) else [] if items is None else [items]:
            scope.variables["each"] = item
            if self.only_if is None or scope.value(self.only_if):
                yield self._question(scope)

    def _question(self, scope: Scope) -> Question:
        operation = scope.input.call.operation
        action = self.action.text(scope) if self.action else operation
        resource = self.resource.arn(scope, self.service)
        context: dict[str, ContextValue] = {}
        if self.tags in {"both", "resource"}:
            context |= scope.input.resource_tags(resource)
        if self.tags in {"both", "request"}:
            context |= scope.variables["request_tags"]
        for key, expression in self.conditions.items():
            context |= _condition(key, scope.value(expression))
        whole_action = action if ":" in action else f"{self.service}:{action}"
        return Question(whole_action, resource, context, self.source)


def _condition(key: str, value: Any) -> dict[str, ContextValue]:
    """Return the condition key of a value that the request has."""
    if value is None or value == []:
        return {}
    if key.endswith(ANY):
        return {f"{key.removesuffix(ANY)}{name}": str(each) for name, each in value.items()}
    if isinstance(value, list):
        return {key: [str(each) for each in value]}
    return {key: str(value).lower() if isinstance(value, bool) else str(value)}
