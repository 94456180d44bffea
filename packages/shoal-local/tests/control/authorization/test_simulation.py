"""SimulatePrincipalPolicy answers by the policies of the account, as the API reference says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from local_kit.control import Account, allow, refused, unique

PUT = "s3:PutObject"
MINE, OTHER = "arn:aws:s3:::mine/*", "arn:aws:s3:::other/*"


def role(account: Account, *policies: dict[str, Any], **settings: str) -> str:
    return account.role({"Service": "sagemaker.amazonaws.com"}, *policies, **settings)


def simulate(account: Account, arn: str, actions: list[str], *resources: str) -> dict[str, str]:
    """Return the decision of each action."""
    results = account.client("iam").simulate_principal_policy(
        PolicySourceArn=arn, ActionNames=actions, ResourceArns=list(resources)
    )["EvaluationResults"]
    return {each["EvalActionName"]: each["EvalDecision"] for each in results}


def test_each_action_has_the_decision_of_the_roles_policies(account: Account) -> None:
    deny = allow("s3:DeleteObject")
    deny["Statement"][0]["Effect"] = "Deny"
    arn = role(account, allow([PUT, "s3:DeleteObject"]), deny)
    assert simulate(account, arn, [PUT, "s3:DeleteObject", "s3:GetObject"], MINE) == {
        PUT: "allowed",
        "s3:DeleteObject": "explicitDeny",
        "s3:GetObject": "implicitDeny",
    }


def test_the_most_restrictive_resource_decides(account: Account) -> None:
    arn = role(account, allow(PUT, MINE))
    assert simulate(account, arn, [PUT], MINE) == {PUT: "allowed"}
    assert simulate(account, arn, [PUT], MINE, OTHER) == {PUT: "implicitDeny"}


def test_a_boundary_counts(account: Account) -> None:
    boundary = account.client("iam").create_policy(
        PolicyName=unique("boundary"), PolicyDocument=json.dumps(allow("sagemaker:*"))
    )["Policy"]["Arn"]
    arn = role(account, allow("*"), PermissionsBoundary=boundary)
    assert simulate(account, arn, [PUT], MINE) == {PUT: "implicitDeny"}


@pytest.mark.parametrize(
    ("name", "action", "resources", "code"),
    [
        ("nobody", PUT, [MINE], "NoSuchEntity"),
        ("", "s3:NoSuchAction", [MINE], "InvalidInput"),
        ("", PUT, [], "InvalidInput"),
        ("", PUT, ["*"], "InvalidInput"),
    ],
)
def test_what_cannot_be_decided_is_refused(
    account: Account, name: str, action: str, resources: list[str], code: str
) -> None:
    arn = role(account) if not name else f"arn:aws:iam::{account.number}:role/{name}"
    request = {"PolicySourceArn": arn, "ActionNames": [action], "ResourceArns": resources}
    assert refused(account.client("iam").simulate_principal_policy, **request)[0] == code
