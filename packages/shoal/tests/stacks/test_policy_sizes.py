"""How the sizes of a template's policies are counted."""

from __future__ import annotations

from typing import Any

from tests.stacks.policy_sizes import TOKEN_CHARACTERS, characters, uses


def statement(resource: Any) -> dict[str, Any]:
    return {"Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": resource}]}


def test_white_space_does_not_count_and_tokens_do() -> None:
    plain = characters(statement("arn"))
    assert characters(statement("a r n")) == plain
    assert characters(statement({"Fn::GetAtt": ["Key", "Arn"]})) == plain - 3 + TOKEN_CHARACTERS
    joined = {"Fn::Join": ["", ["arn:", {"Ref": "AWS::AccountId"}]]}
    assert characters(statement(joined)) == plain - 3 + len("arn:111122223333")
    assert characters(statement({"Fn::If": ["C", "arn", "a"]})) == plain


def test_a_roles_own_and_separate_policies_count_together() -> None:
    policy = {"PolicyName": "p", "PolicyDocument": statement("x" * 6000)}
    role = {"RoleName": "big", "AssumeRolePolicyDocument": {}, "Policies": [policy]}
    template = {
        "Resources": {
            "Role": {"Type": "AWS::IAM::Role", "Properties": role},
            "Policy": {
                "Type": "AWS::IAM::Policy",
                "Properties": {**policy, "Roles": [{"Ref": "Role"}]},
            },
        }
    }
    largest = max(uses(template))
    assert str(largest).startswith("big: inline policies, 121")
    assert largest.share > 1
