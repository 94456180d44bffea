"""Rule files: what a row may say, and that a row with a mistake is refused with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jmespath
import pytest
import yaml
from moto.core.utils import get_service_model

from shoal_local.control.authorization.question_template import FIELD, Scope
from shoal_local.control.authorization.rule_file import Rule, read_rules
from shoal_local.control.authorization.rule_input import RuleInput
from shoal_local.control.authorization.rules import RULE_FILES
from shoal_local.control.http.iam_request import Question
from shoal_local.control.http.protocol import ApiCall
from tests.control.authorization.resources import NoResources

ME = "arn:aws:sts::111122223333:assumed-role/r/s"
SCOPE = {"account", "region", "operation", "request_tags", "first_resource", "each"}
# In these nodes of JMESPath all but the first child are about the value of the first.
STEPS = {"subexpression", "index_expression", "projection", "filter_projection", "flatten", "pipe"}


def read(folder: Path, rows: str) -> dict[str, Rule]:
    path = folder / "sqs.yaml"
    path.write_text(f"rules:\n{rows}")
    return read_rules(path)


def ask(rule: Rule, **parameters: Any) -> list[Question]:
    call = ApiCall("sqs", "Send", "us-east-1", ME, parameters)
    scope = Scope(RuleInput(call, NoResources()))
    return [question for template in rule for question in template.questions(scope)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("- operations: Send", "sqs.yaml, Send: a question needs a resource"),
        ("- resource: '*'", "sqs.yaml: a row has no operations"),
        (
            "- {operations: Send Send2, resource: '*'}\n- {operations: Send, resource: '*'}",
            "sqs.yaml, Send: another row has Send",
        ),
        ("- Send", "sqs.yaml: 'Send' is not a mapping"),
        (
            "- {operations: Send, resource: '*', condition: {}}",
            "sqs.yaml, Send: unknown key condition; the keys are action, conditions, for_each, if,"
            " resource, source, tags",
        ),
        (
            "- {operations: Send, resource: '*', questions: []}",
            "sqs.yaml, Send: unknown key resource; the keys are questions",
        ),
        ("- {operations: Send, questions: ['*']}", "sqs.yaml, Send: '*' is not a mapping"),
        (
            "- {operations: Send, resource: '*', tags: all}",
            "sqs.yaml, Send: tags are one of both, request, resource, none, not 'all'",
        ),
        ("- {operations: Send, resource: '*', if: 'a ||'}", "sqs.yaml, Send: Invalid jmespath"),
        (
            "- {operations: Send, resource: '{queue_name()}'}",
            "sqs.yaml, Send: there is no function queue_name()",
        ),
        (
            "- {operations: Send, resource: '*', conditions: {a:b: queue_arn(QueueUrl)}}",
            "sqs.yaml, Send: queue_arn(): too many positional arguments",
        ),
    ],
)
def test_a_bad_row_is_refused_with_its_place(tmp_path: Path, row: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        read(tmp_path, row)


def test_an_unknown_key_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"sqs\.yaml: unknown key rule; the keys are prefix, rules"
    ):
        read(tmp_path, "- {operations: Send, resource: '*'}\nrule: []")


def test_a_resource_begins_with_the_service_and_the_account(tmp_path: Path) -> None:
    rules = read(tmp_path, "- {operations: Send, resource: 'queue/{Name}'}")
    (question,) = ask(rules["Send"], Name="a")
    assert question == Question("sqs:Send", "arn:aws:sqs:us-east-1:111122223333:queue/a")


def test_a_name_may_be_an_arn(tmp_path: Path) -> None:
    rules = read(tmp_path, "- {operations: Send, resource: 'queue/{Name}'}")
    (question,) = ask(rules["Send"], Name="arn:aws:sqs:us-east-1:999988887777:queue/a")
    assert question.resource == "arn:aws:sqs:us-east-1:999988887777:queue/a"


def test_each_item_of_a_list_is_a_question(tmp_path: Path) -> None:
    rules = read(tmp_path, "- {operations: Send, resource: '{each}', for_each: Arns}")
    assert [question.resource for question in ask(rules["Send"], Arns=["a", "b"])] == ["a", "b"]
    assert [question.resource for question in ask(rules["Send"], Arns="a")] == ["a"]
    assert ask(rules["Send"]) == []


def test_a_condition_key_is_left_out_without_its_value(tmp_path: Path) -> None:
    rules = read(
        tmp_path,
        "- {operations: Send, resource: '*', conditions: {a:is: Is, a:of: Of, a:map/*: Map}}",
    )
    (question,) = ask(rules["Send"], Is=False, Map={"b": "c"}, Of=[])
    assert question.context == {"a:is": "false", "a:map/b": "c"}


@pytest.mark.parametrize("service", sorted(RULE_FILES))
def test_an_expression_names_parameters_of_the_service(service: str) -> None:
    """Rows share expressions, so a row may name a parameter that its own operations lack."""
    rows = yaml.safe_load(RULE_FILES[service].read_text())["rules"]
    members = {
        member
        for row in rows
        for operation in row["operations"].split()
        for member in members_of(service, operation)
    }
    assert {name for row in rows for name in named_in(row)} - SCOPE <= members


def members_of(service: str, operation: str) -> set[str]:
    """Return the names of an operation's parameters."""
    model = get_service_model(
        "sagemaker-runtime" if operation.startswith("InvokeEndpoint") else service
    )
    shape = model.operation_model(operation).input_shape
    return set(shape.members) if shape is not None else set()


def named_in(row: dict[str, Any]) -> set[str]:
    """Return the variables that the expressions of a row name."""
    texts: list[str] = []
    for question in row.get("questions", [row]):
        texts += [str(question[key]) for key in ("for_each", "if") if key in question]
        texts += map(str, question.get("conditions", {}).values())
        texts += FIELD.findall(f"{question['resource']} {question.get('action', '')}")
    return {name for text in texts for name in variables(jmespath.compile(text).parsed)}


def variables(node: Any) -> Iterator[str]:
    if node["type"] == "field":
        yield node["value"]
    for child in node["children"][: 1 if node["type"] in STEPS else None]:
        yield from variables(child)
