"""Rule files: what a row may say, and that each expression names what there is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jmespath
import pytest
import yaml
from moto.core.utils import get_service_model

from shoal_local.control.authorization.question_template import FIELD, Scope
from shoal_local.control.authorization.rule_input import RuleInput
from shoal_local.control.authorization.rules import RULE_FILES, Rule, read_rules
from shoal_local.control.http.iam_request import Question
from shoal_local.control.http.protocol import ApiCall
from tests.control.authorization.resources import NOTHING

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
    scope = Scope(RuleInput(call, NOTHING))
    return [question for template in rule for question in template.questions(scope)]


@pytest.mark.parametrize(
    ("name", "region_and_account"),
    [
        ("a", "us-east-1:111122223333"),
        ("arn:aws:sqs:us-east-1:999988887777:queue/a", "us-east-1:999988887777"),
    ],
)
def test_a_resource_begins_with_the_account_unless_its_name_is_an_arn(
    tmp_path: Path, name: str, region_and_account: str
) -> None:
    rules = read(tmp_path, "- {operations: Send, resource: 'queue/{Name}'}")
    (question,) = ask(rules["Send"], Name=name)
    assert question == Question("sqs:Send", f"arn:aws:sqs:{region_and_account}:queue/a")


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
