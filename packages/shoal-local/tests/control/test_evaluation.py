"""Decisions of the real evaluator with the statements that made them, and SimulatePrincipalPolicy,
which answers by the policies of the account, as the API reference says.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from local_kit.control import Account, allow, refused, unique
from local_kit.tables import rows, table
from shoal_local.control.authorization.evaluator import Decision, Evaluator, Policy
from shoal_local.control.http.protocol import Question
from shoal_local.errors import EmulatorError
from shoal_local.processes import ProcessRegistry, end_group, started_at

CASES = "cases.yaml"
ACCOUNT = "111122223333"
ME = f"arn:aws:sts::{ACCOUNT}:assumed-role/reader/session"
OBJECT = "arn:aws:s3:::data/train/x"
KEY = f"arn:aws:kms:us-east-1:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab"
TRAIN = "sagemaker:CreateTrainingJob"
READ = Question("s3:GetObject", OBJECT)


def policy(**statement: Any) -> Policy:
    return {
        "Version": "2012-10-17",
        "Statement": [{"Sid": "It", "Effect": "Allow", "Resource": "*", **statement}],
    }


def policies(statements: dict[str, Any]) -> dict[str, Policy]:
    """Return a policy of each statement."""
    return {name: policy(**statement) for name, statement in statements.items()}


ALLOW = {"reading": policy(Action="s3:GetObject")}


def decide(
    evaluator: Evaluator, identity: dict[str, Policy], question: Question = READ, **more: Policy
) -> Decision:
    return evaluator.decide(question, ME, identity, **more)


def test_an_allowed_question_names_the_statement_that_allows(evaluator: Evaluator) -> None:
    assert decide(evaluator, ALLOW) == Decision(True, False, ("reading/It",))


@pytest.mark.parametrize(
    ("identity", "more", "statements", "reason"), rows(__file__, CASES, "denied")
)
def test_what_is_denied_is_so_in_the_words_of_aws(
    evaluator: Evaluator,
    identity: dict[str, Any],
    more: dict[str, Any],
    statements: list[str],
    reason: str,
) -> None:
    decision = decide(evaluator, policies(identity), READ, **policies(more))
    assert (decision.allowed, decision.explicit) == (False, bool(statements))
    assert decision.statements == tuple(statements)
    assert decision.reason == (
        f"with {reason}" if statements else f"{reason} the s3:GetObject action"
    )


@pytest.mark.parametrize("row", table(__file__, CASES)["decided"], ids=lambda row: row["case"])
def test_a_statement_allows_or_not(evaluator: Evaluator, row: dict[str, Any]) -> None:
    own = {"own": policy(**row["statement"])}
    more = {"resource_policy": policy(**row["of_resource"])} if row["of_resource"] else {}
    assert decide(evaluator, own, Question(*row["question"]), **more).allowed is row["allowed"]


@pytest.mark.parametrize(
    "question",
    [Question("s3:HeadObject", OBJECT), Question("s3:GetObject", KEY)],
    ids=["action", "resource"],
)
def test_a_question_that_iam_does_not_know_is_refused_by_name(
    evaluator: Evaluator, question: Question
) -> None:
    refusal = f"IAM cannot evaluate {question.action} on {question.resource}"
    with pytest.raises(EmulatorError, match=refusal):
        decide(evaluator, ALLOW, question)


def test_a_context_key_that_aws_does_not_document_for_the_action_is_told(
    evaluator: Evaluator,
) -> None:
    question = Question("s3:GetObject", OBJECT, {"sagemaker:VpcSubnets": ["subnet-a"]})
    assert decide(evaluator, ALLOW, question).ignored == ("sagemaker:VpcSubnets",)


def test_closing_ends_the_process_and_its_record(tmp_path: Path) -> None:
    registry = ProcessRegistry(tmp_path)
    with Evaluator(registry) as evaluator:
        decide(evaluator, ALLOW)
        (pid,) = registry.alive()
    assert registry.alive() == []
    assert started_at(pid) is None


def test_a_process_that_was_killed_is_told_once_and_replaced(tmp_path: Path) -> None:
    registry = ProcessRegistry(tmp_path)
    with Evaluator(registry) as evaluator:
        decide(evaluator, ALLOW)
        end_group(registry.alive()[0])
        with pytest.raises(EmulatorError, match="ended unexpectedly"):
            decide(evaluator, ALLOW, Question("s3:GetObject", "arn:aws:s3:::data/other"))
        assert decide(evaluator, ALLOW, Question("s3:GetObject", "arn:aws:s3:::data/third")).allowed


def role(account: Account, *policies: dict[str, Any], **settings: str) -> str:
    return account.role({"Service": "sagemaker.amazonaws.com"}, *policies, **settings)


def simulate(account: Account, arn: str, *actions: str, **request: Any) -> dict[str, str]:
    """Return the decision about each action."""
    answer = account.client("iam").simulate_principal_policy(
        PolicySourceArn=arn, ActionNames=list(actions), **request
    )
    return {each["EvalActionName"]: each["EvalDecision"] for each in answer["EvaluationResults"]}


def test_each_action_has_the_decision_of_the_roles_policies(account: Account) -> None:
    deny = allow("sagemaker:CreateEndpoint")
    deny["Statement"][0]["Effect"] = "Deny"
    arn = role(account, allow(["sagemaker:*", "ecr:*"]), deny)
    assert simulate(account, arn, TRAIN, "sagemaker:CreateEndpoint", "logs:CreateLogGroup") == {
        TRAIN: "allowed",
        "sagemaker:CreateEndpoint": "explicitDeny",
        "logs:CreateLogGroup": "implicitDeny",
    }


def test_a_policy_about_some_resources_does_not_allow_an_action_on_all(account: Account) -> None:
    arn = role(account, allow("s3:PutObject", "arn:aws:s3:::mine/*"))
    assert simulate(account, arn, "s3:PutObject") == {"s3:PutObject": "implicitDeny"}


@pytest.mark.parametrize(("bucket", "decision"), [("mine", "allowed"), ("other", "implicitDeny")])
def test_a_decision_is_about_the_resource_that_is_named(
    account: Account, bucket: str, decision: str
) -> None:
    arn = role(account, allow("s3:PutObject", "arn:aws:s3:::mine/*"))
    resources = [f"arn:aws:s3:::{bucket}/*"]
    assert simulate(account, arn, "s3:PutObject", ResourceArns=resources) == {
        "s3:PutObject": decision
    }


def test_context_entries_decide_conditions(account: Account) -> None:
    condition = {"ForAnyValue:StringEquals": {"sagemaker:InstanceTypes": "ml.m5.xlarge"}}
    arn = role(account, allow(TRAIN, Condition=condition))
    entry = {
        "ContextKeyName": "sagemaker:InstanceTypes",
        "ContextKeyType": "stringList",
        "ContextKeyValues": ["ml.m5.xlarge"],
    }
    assert simulate(account, arn, TRAIN) == {TRAIN: "implicitDeny"}
    assert simulate(account, arn, TRAIN, ContextEntries=[entry]) == {TRAIN: "allowed"}


def test_a_boundary_counts(account: Account) -> None:
    boundary = account.client("iam").create_policy(
        PolicyName=unique("boundary"), PolicyDocument=json.dumps(allow("s3:*"))
    )["Policy"]["Arn"]
    arn = role(account, allow("*"), PermissionsBoundary=boundary)
    assert simulate(account, arn, TRAIN) == {TRAIN: "implicitDeny"}


@pytest.mark.parametrize(
    ("name", "action", "code"),
    [("nobody", TRAIN, "NoSuchEntity"), ("", "sagemaker:NoSuchAction", "InvalidInput")],
)
def test_what_does_not_exist_is_refused(
    account: Account, name: str, action: str, code: str
) -> None:
    arn = role(account) if not name else f"arn:aws:iam::{account.number}:role/{name}"
    request = {"PolicySourceArn": arn, "ActionNames": [action]}
    assert refused(account.client("iam").simulate_principal_policy, **request)[0] == code
