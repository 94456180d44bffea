"""What SageMaker does with a job's or model's execution role, besides moving data.

The questions are in `execution_roles.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jmespath

from shoal_local.control.authorization.question_template import Scope
from shoal_local.control.authorization.rule_input import RuleInput
from shoal_local.control.authorization.rules import Rule, rule_of, rule_questions
from shoal_local.control.http.iam_request import Question
from shoal_local.tables import read_table

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
