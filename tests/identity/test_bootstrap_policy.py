"""The restricted policy for CloudFormation: enough for every resource of every stack, and too little to make oneself an administrator.

What CloudFormation calls for a type of resource is in the type's own schema (`handlers`), of which cfn-lint has a copy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from emulator.control.authorization.evaluator import Evaluator
from emulator.control.authorization.question import Question
from tests.identity.templates import Templates

FILE = Path(__file__).resolve().parents[2] / "docs" / "bootstrap-policy.json"
EXECUTION_ROLE = "arn:aws:iam::111122223333:role/cdk-hnb659fds-cfn-exec-role-111122223333-us-east-1"
LONGEST = 6144
"""Characters of a managed policy, white space not counted (IAM user guide, "IAM and AWS STS quotas")."""
# Properties that our resources do not have: attached managed policies, users, groups, S3 tables, Lambda in a VPC or with layers ...
NOT_USED = re.compile(
    r"^(autoscaling|billing|elasticfilesystem|firehose|s3files|s3tables|vpc-lattice|vpce|ec2:(Accept|Assign|Unassign)\w*Address\w*"
    r"|ec2:AssociateAddress|ec2:AssociateNatGatewayAddress|ec2:DisassociateNatGatewayAddress|ec2:\w*SubnetCidrBlock|ec2:\w*VpnGateway"
    r"|ec2:\w*(ReplaceRoute|ModifySecurityGroupRules|SecurityGroupVpc)\w*|iam:\w*(User|Group)Policy|iam:(At|De)tachRolePolicy|iam:ListRoles"
    r"|kms:(Decrypt|Encrypt|GenerateDataKey|RetireGrant|ReplicateKey|\w*Rotat\w*|CancelKeyDeletion)\b|lambda:PassCapacityProvider)"
)
KEY = {"Statement": [{"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::111122223333:root"}, "Action": "kms:*", "Resource": "*"}]}
"""A key that leaves everything to IAM."""
UNDESCRIBED = {"AWS::CodeBuild::Project", "AWS::FSx::FileSystem", "AWS::CDK::Metadata"}
"""Types whose schema names no permissions."""


@pytest.fixture(scope="module")
def policy() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return document


@pytest.fixture(scope="module")
def types(templates: dict[str, Templates]) -> set[str]:
    """Every type of resource that an environment may have."""
    stacks = [document for environment in templates.values() for document in environment.stacks.values()]
    found = {resource["Type"] for document in stacks for resource in document["Resources"].values()}
    return {each for each in found if each.startswith("AWS::")}


def needed(resource_type: str) -> Iterator[str]:
    handlers = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", resource_type).schema.get("handlers", {})
    for handler in handlers.values():
        yield from handler.get("permissions", [])


def allows(policy: dict[str, Any], action: str) -> bool:
    statements = [each for each in policy["Statement"] if each["Effect"] == "Allow"]
    patterns = [pattern for each in statements for pattern in ([each["Action"]] if isinstance(each["Action"], str) else each["Action"])]
    return any(fnmatchcase(action.lower(), pattern.lower()) for pattern in patterns)


def test_every_call_that_cloudformation_makes_for_our_resources_is_allowed(policy: dict[str, Any], types: set[str]) -> None:
    actions = {action for each in types for action in needed(each)}
    assert len(actions) > 200
    assert sorted(action for action in actions if not NOT_USED.match(action) and not allows(policy, action)) == []


def test_only_known_types_say_nothing_of_permissions(types: set[str]) -> None:
    assert {each for each in types if not list(needed(each))} <= UNDESCRIBED


def test_the_policy_fits_into_one_managed_policy(policy: dict[str, Any]) -> None:
    assert len(json.dumps(policy, separators=(",", ":"))) <= LONGEST


@pytest.mark.parametrize(
    ("action", "resource", "context"),
    [
        ("iam:CreateRole", "arn:aws:iam::111122223333:role/admin", {}),
        ("iam:AttachRolePolicy", "arn:aws:iam::111122223333:role/shoal-mnist-dev-us-east-1-training", {}),
        ("iam:CreateUser", "arn:aws:iam::111122223333:user/somebody", {}),
        ("iam:PutRolePolicy", EXECUTION_ROLE, {}),
        ("iam:PassRole", "arn:aws:iam::111122223333:role/admin", {"iam:PassedToService": "lambda.amazonaws.com"}),
        ("iam:PassRole", "arn:aws:iam::111122223333:role/shoal-x", {"iam:PassedToService": "ec2.amazonaws.com"}),
        ("s3:GetObject", "arn:aws:s3:::somebody-elses-bucket/secret", {}),
        ("lambda:UpdateFunctionCode", "arn:aws:lambda:us-east-1:111122223333:function:somebody-elses", {}),
        ("ec2:RunInstances", "arn:aws:ec2:us-east-1:111122223333:instance/*", {}),
        ("secretsmanager:GetSecretValue", "arn:aws:secretsmanager:us-east-1:111122223333:secret:x", {}),
        ("sts:AssumeRole", "arn:aws:iam::111122223333:role/admin", {}),
        ("kms:CreateGrant", "arn:aws:kms:us-east-1:111122223333:key/1", {"kms:GrantIsForAWSResource": "false"}),
    ],
)
def test_it_is_too_little_for_anything_else(
    policy: dict[str, Any], evaluator: Evaluator, action: str, resource: str, context: dict[str, str]
) -> None:
    assert not evaluator.decide(
        Question(action, resource, context),
        EXECUTION_ROLE,
        {"bootstrap": policy},
        resource_policy=KEY if action.startswith("kms") else None,
    ).allowed


@pytest.mark.parametrize(
    ("action", "resource", "context"),
    [
        ("iam:CreateRole", "arn:aws:iam::111122223333:role/shoal-mnist-dev-us-east-1-training", {}),
        ("iam:PassRole", "arn:aws:iam::111122223333:role/shoal-mnist-dev-us-east-1-sweep", {"iam:PassedToService": "lambda.amazonaws.com"}),
        ("s3:PutBucketPolicy", "arn:aws:s3:::shoal-mnist-dev-data-111122223333-us-east-1", {}),
        ("sagemaker:CreatePipeline", "arn:aws:sagemaker:us-east-1:111122223333:pipeline/shoal-mnist-dev", {}),
        ("s3:GetObject", "arn:aws:s3:::cdk-hnb659fds-assets-111122223333-us-east-1/code.gz", {}),
    ],
)
def test_what_a_deployment_does_is_allowed(
    policy: dict[str, Any], evaluator: Evaluator, action: str, resource: str, context: dict[str, str]
) -> None:
    assert evaluator.decide(
        Question(action, resource, context),
        EXECUTION_ROLE,
        {"bootstrap": policy},
        resource_policy=KEY if action.startswith("kms") else None,
    ).allowed
