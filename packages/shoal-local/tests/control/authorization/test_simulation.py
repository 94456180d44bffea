"""SimulatePrincipalPolicy answers by the policies of the account, as the API reference says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from local_kit.control import Account, allow, refused, unique

TRAIN = "sagemaker:CreateTrainingJob"


def role(account: Account, *policies: dict[str, Any], **settings: str) -> str:
    return account.role({"Service": "sagemaker.amazonaws.com"}, *policies, **settings)


def simulate(account: Account, arn: str, *actions: str, **request: Any) -> list[dict[str, Any]]:
    answer = account.client("iam").simulate_principal_policy(
        PolicySourceArn=arn, ActionNames=list(actions), **request
    )
    return list(answer["EvaluationResults"])


def decisions(results: list[dict[str, Any]]) -> dict[str, str]:
    return {each["EvalActionName"]: each["EvalDecision"] for each in results}


def test_each_action_has_the_decision_of_the_roles_policies(account: Account) -> None:
    deny = allow("sagemaker:CreateEndpoint")
    deny["Statement"][0]["Effect"] = "Deny"
    arn = role(account, allow(["sagemaker:*", "ecr:*"]), deny)
    results = simulate(account, arn, TRAIN, "sagemaker:CreateEndpoint", "logs:CreateLogGroup")
    assert decisions(results) == {
        TRAIN: "allowed",
        "sagemaker:CreateEndpoint": "explicitDeny",
        "logs:CreateLogGroup": "implicitDeny",
    }
    matched = [each["MatchedStatements"] for each in results]
    assert [[one["SourcePolicyId"] for one in each] for each in matched] == [
        ["policy-0"],
        ["policy-1"],
        [],
    ]


def test_a_policy_about_some_resources_does_not_allow_an_action_on_all(account: Account) -> None:
    arn = role(account, allow("s3:PutObject", "arn:aws:s3:::mine/*"))
    assert decisions(simulate(account, arn, "s3:PutObject")) == {"s3:PutObject": "implicitDeny"}


def test_resources_have_results_of_their_own_below_the_most_restrictive(account: Account) -> None:
    arn = role(account, allow("s3:PutObject", "arn:aws:s3:::mine/*"))
    resources = ["arn:aws:s3:::mine/*", "arn:aws:s3:::other/*"]
    (result,) = simulate(account, arn, "s3:PutObject", ResourceArns=resources)
    assert result["EvalDecision"] == "implicitDeny"
    assert result["EvalResourceName"] == resources[1]
    assert [
        (each["EvalResourceName"], each["EvalResourceDecision"])
        for each in result["ResourceSpecificResults"]
    ] == list(zip(resources, ["allowed", "implicitDeny"], strict=True))


def test_a_boundary_counts(account: Account) -> None:
    boundary = account.client("iam").create_policy(
        PolicyName=unique("boundary"), PolicyDocument=json.dumps(allow("s3:*"))
    )["Policy"]["Arn"]
    arn = role(account, allow("*"), PermissionsBoundary=boundary)
    (result,) = simulate(account, arn, TRAIN)
    assert result["EvalDecision"] == "implicitDeny"


def test_context_entries_decide_conditions(account: Account) -> None:
    condition = {"ForAnyValue:StringEquals": {"sagemaker:InstanceTypes": "ml.m5.xlarge"}}
    arn = role(account, allow(TRAIN, Condition=condition))
    entry = {
        "ContextKeyName": "sagemaker:InstanceTypes",
        "ContextKeyType": "stringList",
        "ContextKeyValues": ["ml.m5.xlarge"],
    }
    assert decisions(simulate(account, arn, TRAIN)) == {TRAIN: "implicitDeny"}
    assert decisions(simulate(account, arn, TRAIN, ContextEntries=[entry])) == {TRAIN: "allowed"}


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
