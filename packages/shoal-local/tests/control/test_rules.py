"""Rules of authorization: what a row of their files may say, and every rule, with a request that
has every parameter, against AWS's service authorization reference.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import jmespath
import pytest
from botocore.utils import ArgumentGenerator
from moto.core.utils import get_service_model

from local_kit.tables import table
from shoal_local.control.authorization.account import AccountState
from shoal_local.control.authorization.evaluator import Evaluator
from shoal_local.control.authorization.rule_functions import RuleInput
from shoal_local.control.authorization.rules import (
    FIELD,
    Rule,
    Scope,
    UnmappedError,
    documents,
    questions,
    rules_in,
    rules_of,
)
from shoal_local.control.http.protocol import ApiCall, Question
from shoal_local.errors import AwsError
from shoal_local.server import Emulator, Options

ACCOUNT = "111122223333"
KEY = f"arn:aws:kms:us-east-1:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def _missing(_operation: str, _request: Mapping[str, Any]) -> Mapping[str, Any]:
    raise AwsError("ValidationException", "it does not exist")


class EverythingExists(AccountState):
    """An account in which everything has a key, so that rules ask all that they can ask."""

    def key_of_bucket(self, bucket: str) -> str | None:
        return KEY

    def key_of_object(self, bucket: str, key: str) -> str | None:
        return KEY

    def key_of_queue(self, name: str) -> str | None:
        return KEY

    def key_of_endpoint_config(self, name: str) -> str | None:
        return KEY

    def key_arn(self, key: str, account: str | None = None) -> str:
        return KEY

    def vpc_of(self, id_: str) -> str | None:
        return "vpc-1" if id_.startswith(("subnet-", "sg-", "rtb-")) else None


_PLACE = (ACCOUNT, "us-east-1", cast(Any, None), _missing, lambda _number: None)
NOTHING = AccountState(*_PLACE, is_scaled=lambda _endpoint: False)
EVERYTHING = EverythingExists(*_PLACE, is_scaled=lambda _endpoint: True)


SCOPE = {"account", "region", "operation", "request_tags", "first_resource", "each"}
# In these nodes of JMESPath all but the first child are about the value of the first.
STEPS = {"subexpression", "index_expression", "projection", "filter_projection", "flatten", "pipe"}


def rule(**row: Any) -> Rule:
    return rules_in({"service": "sqs", "rules": [{"operations": "Send", **row}]})["Send"]


def ask(templates: Rule, **parameters: Any) -> list[Question]:
    call = ApiCall("sqs", "Send", "us-east-1", ME, parameters)
    scope = Scope(RuleInput(call, NOTHING))
    return [question for template in templates for question in template.questions(scope)]


@pytest.mark.parametrize(
    ("name", "region_and_account"),
    [
        ("a", "us-east-1:111122223333"),
        ("arn:aws:sqs:us-east-1:999988887777:queue/a", "us-east-1:999988887777"),
    ],
)
def test_a_resource_begins_with_the_account_unless_its_name_is_an_arn(
    name: str, region_and_account: str
) -> None:
    (question,) = ask(rule(resource="queue/{Name}"), Name=name)
    assert question == Question("sqs:Send", f"arn:aws:sqs:{region_and_account}:queue/a")


def test_each_item_of_a_list_is_a_question() -> None:
    each = rule(resource="{each}", for_each="Arns")
    assert [question.resource for question in ask(each, Arns=["a", "b"])] == ["a", "b"]
    assert [question.resource for question in ask(each, Arns="a")] == ["a"]
    assert ask(each) == []


def test_a_condition_key_is_left_out_without_its_value() -> None:
    conditions = {"a:is": "Is", "a:of": "Of", "a:map/*": "Map"}
    (question,) = ask(rule(resource="*", conditions=conditions), Is=False, Map={"b": "c"}, Of=[])
    assert question.context == {"a:is": "false", "a:map/b": "c"}


@pytest.mark.parametrize("service", sorted(documents()))
def test_an_expression_names_parameters_of_the_service(service: str) -> None:
    """Rows share expressions, so a row may name a parameter that its own operations lack."""
    rows = documents()[service]["rules"]
    members = {
        member
        for row in rows
        for operation in row["operations"].split()
        for member in getattr(input_shape(service, operation), "members", ())
    }
    assert {name for row in rows for name in named_in(row)} - SCOPE <= members


def input_shape(service: str, operation: str) -> Any:
    """Return the shape of an operation's request, None where it has none."""
    name = "sagemaker-runtime" if operation.startswith("InvokeEndpoint") else service
    return get_service_model(name).operation_model(operation).input_shape


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


ME = f"arn:aws:sts::{ACCOUNT}:assumed-role/r/s"
VALUES = table(__file__, "cases.yaml")["rules"]


def every_operation() -> Iterator[Any]:
    for service in sorted(documents()):
        for operation in rules_of(service):
            yield pytest.param(service, operation, id=f"{service}-{operation}")


def questions_of(service: str, operation: str) -> list[Question]:
    """Ask with every parameter: names are `name`; ids and ARNs look like those of the service."""
    shape = input_shape(service, operation)
    skeleton = ArgumentGenerator(use_member_names=True).generate_skeleton(shape) if shape else {}
    request = dict(filled(service, skeleton, ""))
    return questions(ApiCall(service, operation, "us-east-1", ME, request), EVERYTHING)


def filled(service: str, value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {key: filled(service, member, key) for key, member in value.items()}
    if isinstance(value, list):
        return [filled(service, each, name) for each in value]
    return text_of(service, name) if isinstance(value, str) else value or 1


def text_of(service: str, name: str) -> str:
    if name in VALUES["parameters"]:
        return str(VALUES["parameters"][name])
    if "role" in name.lower() and "name" not in name.lower():
        return f"arn:aws:iam::{ACCOUNT}:role/name"
    if name.lower() in {"resourcearn", "topicarn", "targetarn", "resource", "modelpackagearn"}:
        return f"arn:aws:{service}:us-east-1:{ACCOUNT}:{VALUES['resources'].get(service, 'name')}"
    return "name"


@pytest.mark.parametrize(("service", "operation"), list(every_operation()))
def test_aws_documents_every_action_resource_and_condition_key_of_a_rule(
    service: str, operation: str, evaluator: Evaluator
) -> None:
    rule_questions = questions_of(service, operation)
    assert rule_questions or operation == "GetCallerIdentity"  # which needs no permission
    for question in rule_questions:
        # This raises for an action that does not exist, or a resource that it does not take.
        decision = evaluator.decide(question, ME, {})
        assert decision.ignored == (), question


def test_an_operation_without_a_rule_is_named() -> None:
    reason = "does not know which IAM action the operation sagemaker:CreateLabelingJob needs"
    with pytest.raises(UnmappedError, match=reason):
        questions(ApiCall("sagemaker", "CreateLabelingJob", "us-east-1", ME), NOTHING)


def test_every_operation_that_the_emulator_answers_itself_has_a_rule(tmp_path: Path) -> None:
    emulator = Emulator(Options(tmp_path, ACCOUNT, "us-east-1"))
    own = {
        (service, operation)
        for service, has in emulator.home.router.services.items()
        for operation in has.operations
    }
    emulator.close()
    assert len(own) > 60
    assert [each for each in own if each[1] not in rules_of(each[0])] == []


def test_a_channel_that_may_write_does_not_hide_behind_one_that_may_not() -> None:
    sources = [
        {"FileSystemId": "fs-1", "FileSystemType": "FSxLustre", "FileSystemAccessMode": mode}
        for mode in ("ro", "rw")
    ]
    request = {
        "TrainingJobName": "x",
        "InputDataConfig": [{"DataSource": {"FileSystemDataSource": source}} for source in sources],
    }
    create, *_ = questions(
        ApiCall("sagemaker", "CreateTrainingJob", "us-east-1", ME, request), NOTHING
    )
    assert create.context["sagemaker:FileSystemAccessMode"] == "rw"


def test_the_source_of_a_copy_is_asked_for_by_its_decoded_key() -> None:
    copy = {"Bucket": "to", "Key": "k", "CopySource": "from/a%20key?versionId=1"}
    question, *_ = questions(ApiCall("s3", "CopyObject", "us-east-1", ME, copy), NOTHING)
    assert question.resource == "arn:aws:s3:::from/a key"
    assert question.action == "s3:GetObjectVersion"


def test_the_tags_of_a_key_are_those_of_its_request() -> None:
    (asked,) = questions_of("kms", "CreateKey")
    assert asked.context["aws:RequestTag/name"] == "name"
