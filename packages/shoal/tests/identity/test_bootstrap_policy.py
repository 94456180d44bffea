"""The restricted policy for CloudFormation: enough for every resource of every stack, and too
little to become an administrator.

What CloudFormation calls for a type of resource is in the type's own schema (`handlers`), of which
cfn-lint has a copy.
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

from shoal_local.control.authorization.evaluator import Evaluator
from shoal_local.control.http.iam_request import Question
from tests.identity.templates import Templates

FILE = Path(__file__).resolve().parents[4] / "docs" / "bootstrap-policy.json"
EXECUTION_ROLE = "arn:aws:iam::111122223333:role/cdk-hnb659fds-cfn-exec-role-111122223333-us-east-1"
FSX_ROLES = (
    "arn:aws:iam::111122223333:role/aws-service-role/s3.data-source.lustre.fsx.amazonaws.com"
)
MAX_LENGTH = 6144
"""Characters of a managed policy, white space not counted (IAM user guide, "IAM and AWS STS
quotas").
"""
BOUNDARY = FILE.with_name("bootstrap-boundary-policy.json")
OUR_TAG = "aws:ResourceTag/shoal:project"
# Properties that our resources do not have: attached managed policies, users, groups, S3 tables,
# Lambda in a VPC or with layers ...
NOT_USED = re.compile(
    r"^(application-autoscaling:(Put|Delete)ScheduledAction|autoscaling|billing|elasticfilesystem|firehose|s3files|s3tables|vpc-lattice|vpce|ec2:(Accept|Assign|Unassign)\w*Address\w*"
    r"|ec2:AssociateAddress|ec2:AssociateNatGatewayAddress|ec2:DisassociateNatGatewayAddress|ec2:\w*SubnetCidrBlock|ec2:\w*VpnGateway"
    r"|ec2:\w*(ReplaceRoute|ModifySecurityGroupRules|SecurityGroupVpc)\w*|iam:\w*(User|Group)Policy|iam:DetachRolePolicy|iam:ListRoles"
    r"|kms:(Encrypt|GenerateDataKey|ReplicateKey|\w*Rotat\w*|CancelKeyDeletion)\b|lambda:PassCapacityProvider)"
)
# What the statement DestroyOnlyWhatIsOurs destroys.
TAGGED_TYPES = re.compile(
    r"AWS::(KMS::Key|FSx::\w+|SageMaker::(Model|EndpointConfig)|EC2::(EIP|FlowLog|InternetGateway|NatGateway|RouteTable|SecurityGroup|Subnet|VPC|VPCEndpoint))$"
)
KEY = {
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"AWS": "arn:aws:iam::111122223333:root"},
            "Action": "kms:*",
            "Resource": "*",
        }
    ]
}
"""A key that leaves everything to IAM."""
UNDESCRIBED = {"AWS::CodeBuild::Project", "AWS::FSx::FileSystem", "AWS::CDK::Metadata"}
"""Types whose schema names no permissions."""


@pytest.fixture(scope="module")
def policy() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return document


@pytest.fixture(scope="module")
def types(templates: dict[str, Templates]) -> set[str]:
    """Return every type of resource that an environment may have."""
    stacks = [
        document for environment in templates.values() for document in environment.stacks.values()
    ]
    types = {resource["Type"] for document in stacks for resource in document["Resources"].values()}
    return {each for each in types if each.startswith("AWS::")}


def needed(resource_type: str) -> Iterator[str]:
    handlers = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", resource_type).schema.get(
        "handlers", {}
    )
    for handler in handlers.values():
        yield from handler.get("permissions", [])


def allows(policy: dict[str, Any], action: str) -> bool:
    statements = [each for each in policy["Statement"] if each["Effect"] == "Allow"]
    patterns = [
        pattern
        for each in statements
        for pattern in ([each["Action"]] if isinstance(each["Action"], str) else each["Action"])
    ]
    return any(fnmatchcase(action.lower(), pattern.lower()) for pattern in patterns)


def test_every_call_that_cloudformation_makes_for_our_resources_is_allowed(
    policy: dict[str, Any], types: set[str]
) -> None:
    actions = {action for each in types for action in needed(each)}
    assert len(actions) > 200
    assert (
        sorted(
            action
            for action in actions
            if not NOT_USED.match(action) and not allows(policy, action)
        )
        == []
    )


def test_only_known_types_say_nothing_of_permissions(types: set[str]) -> None:
    assert {each for each in types if not list(needed(each))} <= UNDESCRIBED


def test_the_policy_fits_into_one_managed_policy(policy: dict[str, Any]) -> None:
    assert len(json.dumps(policy, separators=(",", ":"))) <= MAX_LENGTH


def test_nothing_of_ec2_is_allowed_that_no_type_of_ours_needs(
    policy: dict[str, Any], types: set[str]
) -> None:
    expected = {action for each in types for action in needed(each) if action.startswith("ec2:")}
    listed = {
        action
        for each in policy["Statement"]
        for action in each["Action"]
        if action.startswith("ec2:")
    }
    unused = {
        pattern
        for pattern in listed
        if not any(fnmatchcase(action, pattern) for action in expected)
    }
    assert unused == {
        "ec2:GetSecurityGroupsForVpc"
    }  # FSx asks for it (AWS managed policy AmazonFSxFullAccess)


def test_whatever_the_policy_ties_to_our_tag_carries_it(templates: dict[str, Templates]) -> None:
    documents = [
        document for environment in templates.values() for document in environment.stacks.values()
    ]
    tied = [
        each
        for document in documents
        for each in document["Resources"].values()
        if TAGGED_TYPES.match(each["Type"])
    ]
    tags = [{tag["Key"] for tag in each["Properties"].get("Tags", [])} for each in tied]
    assert len({each["Type"] for each in tied}) == 14
    assert all("shoal:project" in keys for keys in tags)


def arn(service: str, resource: str) -> str:
    return f"arn:aws:{service}:us-east-1:111122223333:{resource}"


DESTROYED = [
    ("kms:PutKeyPolicy", arn("kms", "key/1")),
    ("kms:ScheduleKeyDeletion", arn("kms", "key/1")),
    ("kms:DisableKey", arn("kms", "key/1")),
    ("fsx:DeleteFileSystem", arn("fsx", "file-system/fs-1")),
    ("fsx:DeleteDataRepositoryAssociation", arn("fsx", "association/fs-1/dra-1")),
    ("ec2:DeleteVpc", arn("ec2", "vpc/vpc-1")),
    ("ec2:DeleteSubnet", arn("ec2", "subnet/subnet-1")),
    ("ec2:DeleteRoute", arn("ec2", "route-table/rtb-1")),
    ("ec2:DeleteSecurityGroup", arn("ec2", "security-group/sg-1")),
    ("ec2:DeleteVpcEndpoints", arn("ec2", "vpc-endpoint/vpce-1")),
    ("ec2:DeleteFlowLogs", arn("ec2", "vpc-flow-log/fl-1")),
    ("ec2:ReleaseAddress", arn("ec2", "elastic-ip/eipalloc-1")),
]


@pytest.mark.parametrize(("action", "resource"), DESTROYED, ids=[action for action, _ in DESTROYED])
def test_only_what_carries_our_tag_can_be_destroyed(
    policy: dict[str, Any], evaluator: Evaluator, action: str, resource: str
) -> None:
    on_key = KEY if action.startswith("kms") else None
    questions = [Question(action, resource, context) for context in ({OUR_TAG: "mnist"}, {})]
    decided = [
        evaluator.decide(
            each, EXECUTION_ROLE, {"bootstrap": policy}, resource_policy=on_key
        ).allowed
        for each in questions
    ]
    assert decided == [True, False]


ROLE = "arn:aws:iam::111122223333:role/shoal-mnist-dev-us-east-1-training"
WITH = {"iam:PermissionsBoundary": "arn:aws:iam::111122223333:policy/YOUR-BOUNDARY"}


@pytest.mark.parametrize(
    "action",
    ["CreateRole", "PutRolePolicy", "PutRolePermissionsBoundary", "DeleteRolePermissionsBoundary"],
)
def test_the_policy_for_a_boundary_lets_no_role_be_without_it(
    policy: dict[str, Any], evaluator: Evaluator, action: str
) -> None:
    both = {"bootstrap": policy, "boundary": json.loads(BOUNDARY.read_text(encoding="utf-8"))}
    other = {"iam:PermissionsBoundary": "arn:aws:iam::111122223333:policy/Other"}
    decided = [
        evaluator.decide(Question(f"iam:{action}", ROLE, context), EXECUTION_ROLE, both).allowed
        for context in (WITH, other, {})
    ]
    assert decided == [not action.startswith("Delete"), False, False]


@pytest.mark.parametrize(
    ("action", "resource", "context"),
    [
        ("iam:CreateRole", "arn:aws:iam::111122223333:role/admin", {}),
        (
            "iam:AttachRolePolicy",
            "arn:aws:iam::111122223333:role/shoal-mnist-dev-us-east-1-training",
            {},
        ),
        ("iam:CreateUser", "arn:aws:iam::111122223333:user/somebody", {}),
        ("iam:PutRolePolicy", EXECUTION_ROLE, {}),
        (
            "iam:PassRole",
            "arn:aws:iam::111122223333:role/admin",
            {"iam:PassedToService": "lambda.amazonaws.com"},
        ),
        (
            "iam:PassRole",
            "arn:aws:iam::111122223333:role/shoal-x",
            {"iam:PassedToService": "ec2.amazonaws.com"},
        ),
        ("s3:GetObject", "arn:aws:s3:::somebody-elses-bucket/secret", {}),
        (
            "lambda:UpdateFunctionCode",
            "arn:aws:lambda:us-east-1:111122223333:function:somebody-elses",
            {},
        ),
        ("ec2:RunInstances", "arn:aws:ec2:us-east-1:111122223333:instance/*", {}),
        (
            "secretsmanager:GetSecretValue",
            "arn:aws:secretsmanager:us-east-1:111122223333:secret:x",
            {},
        ),
        ("sts:AssumeRole", "arn:aws:iam::111122223333:role/admin", {}),
        (
            "kms:CreateGrant",
            "arn:aws:kms:us-east-1:111122223333:key/1",
            {"kms:GrantIsForAWSResource": "false"},
        ),
        ("kms:Decrypt", arn("kms", "key/1"), {}),
        ("kms:Decrypt", arn("kms", "key/1"), {"kms:ViaService": "s3.us-east-1.amazonaws.com"}),
        ("kms:DeleteAlias", arn("kms", "alias/somebody-elses"), {}),
        (
            "iam:PutRolePolicy",
            "arn:aws:iam::111122223333:role/aws-service-role/other.amazonaws.com/AWSServiceRoleForOther",
            {},
        ),
        ("ec2:DeleteVolume", arn("ec2", "volume/vol-1"), {OUR_TAG: "mnist"}),
        ("ec2:DeleteSnapshot", "arn:aws:ec2:us-east-1::snapshot/snap-1", {OUR_TAG: "mnist"}),
        ("ec2:DeleteTransitGateway", arn("ec2", "transit-gateway/tgw-1"), {OUR_TAG: "mnist"}),
        ("ec2:CreateVpcPeeringConnection", arn("ec2", "vpc/vpc-1"), {OUR_TAG: "mnist"}),
        ("ec2:CreateInstanceConnectEndpoint", arn("ec2", "subnet/subnet-1"), {OUR_TAG: "mnist"}),
        ("ec2:CreateKeyPair", arn("ec2", "key-pair/x"), {}),
        ("fsx:DeleteBackup", arn("fsx", "backup/backup-1"), {OUR_TAG: "mnist"}),
        ("sagemaker:DeleteModel", arn("sagemaker", "model/somebody-elses"), {}),
        ("sagemaker:UpdateEndpoint", arn("sagemaker", "endpoint/somebody-elses"), {}),
        ("sagemaker:UpdateModelPackage", arn("sagemaker", "model-package/shoal-mnist-dev/1"), {}),
        ("sagemaker:InvokeEndpoint", arn("sagemaker", "endpoint/somebody-elses"), {}),
    ],
)
def test_it_is_too_little_for_anything_else(
    policy: dict[str, Any],
    evaluator: Evaluator,
    action: str,
    resource: str,
    context: dict[str, str],
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
        (
            "iam:PassRole",
            "arn:aws:iam::111122223333:role/shoal-mnist-dev-us-east-1-sweep",
            {"iam:PassedToService": "lambda.amazonaws.com"},
        ),
        ("s3:PutBucketPolicy", "arn:aws:s3:::shoal-mnist-dev-data-111122223333-us-east-1", {}),
        (
            "sagemaker:CreatePipeline",
            "arn:aws:sagemaker:us-east-1:111122223333:pipeline/shoal-mnist-dev",
            {},
        ),
        ("sagemaker:CreateModel", arn("sagemaker", "model/ServedModelB0AF3034-x"), {}),
        (
            "sagemaker:DeleteModel",
            arn("sagemaker", "model/ServedModelB0AF3034-x"),
            {OUR_TAG: "mnist"},
        ),
        ("sagemaker:UpdateEndpoint", arn("sagemaker", "endpoint/shoal-mnist-prod"), {}),
        ("s3:GetObject", "arn:aws:s3:::cdk-hnb659fds-assets-111122223333-us-east-1/code.gz", {}),
        ("kms:Decrypt", arn("kms", "key/1"), {"kms:ViaService": "fsx.us-east-1.amazonaws.com"}),
        (
            "kms:GenerateDataKeyWithoutPlaintext",
            arn("kms", "key/1"),
            {"kms:ViaService": "fsx.us-east-1.amazonaws.com"},
        ),
        ("kms:CreateAlias", arn("kms", "key/1"), {}),
        ("kms:CreateAlias", arn("kms", "alias/shoal-mnist-dev"), {}),
        ("iam:PutRolePolicy", f"{FSX_ROLES}/AWSServiceRoleForFSxS3Access_fs-1", {}),
        ("iam:AttachRolePolicy", f"{FSX_ROLES}/AWSServiceRoleForFSxS3Access_fs-1", {}),
    ],
)
def test_what_a_deployment_does_is_allowed(
    policy: dict[str, Any],
    evaluator: Evaluator,
    action: str,
    resource: str,
    context: dict[str, str],
) -> None:
    assert evaluator.decide(
        Question(action, resource, context),
        EXECUTION_ROLE,
        {"bootstrap": policy},
        resource_policy=KEY if action.startswith("kms") else None,
    ).allowed
