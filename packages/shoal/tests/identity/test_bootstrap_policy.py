"""What the bootstrap may do at most, and what people may do by their permission sets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.verbs.permission_sets import JOBS, policy_for
from shoal_local.control.authorization.evaluator import Evaluator
from shoal_local.control.http.iam_request import Question
from tests.identity.permissions import TO_ACCOUNT, question, read
from tests.identity.templates import Templates
from tests.repository import ROOT

FILE = Path(__file__).resolve().parents[4] / "docs" / "bootstrap-policy.json"
EXECUTION_ROLE = "arn:aws:iam::111122223333:role/cdk-hnb659fds-cfn-exec-role-111122223333-us-east-1"
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
UNDESCRIBED = {"AWS::CodeBuild::Project", "AWS::FSx::FileSystem", "AWS::CDK::Metadata"}
"""Types whose schema names no permissions."""


ROWS = read("bootstrap.yaml")
ROLE = "arn:aws:iam::111122223333:role/shoal-mnist-dev-us-east-1-training"
BOUNDARIES = {
    name: {"iam:PermissionsBoundary": f"arn:aws:iam::111122223333:policy/{name}"}
    for name in ("YOUR-BOUNDARY", "Other")
}


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


@pytest.fixture(scope="module")
def permits(policy: dict[str, Any], evaluator: Evaluator) -> Callable[[Question], bool]:
    """Return a function that says whether CloudFormation may do what is asked."""

    def decide(question: Question) -> bool:
        on_key = {"Statement": [TO_ACCOUNT]} if question.service == "kms" else None
        identity = {"bootstrap": policy}
        return evaluator.decide(question, EXECUTION_ROLE, identity, resource_policy=on_key).allowed

    return decide


@pytest.mark.parametrize("row", ROWS["destroyed"], ids=lambda row: row["action"])
def test_only_what_carries_our_tag_can_be_destroyed(
    permits: Callable[[Question], bool], row: dict[str, str]
) -> None:
    assert [permits(question(each)) for each in ({**row, OUR_TAG: "mnist"}, row)] == [True, False]


@pytest.mark.parametrize(
    "action",
    ["CreateRole", "PutRolePolicy", "PutRolePermissionsBoundary", "DeleteRolePermissionsBoundary"],
)
def test_the_policy_for_a_boundary_lets_no_role_be_without_it(
    policy: dict[str, Any], evaluator: Evaluator, action: str
) -> None:
    both = {"bootstrap": policy, "boundary": json.loads(BOUNDARY.read_text(encoding="utf-8"))}
    decided = [
        evaluator.decide(Question(f"iam:{action}", ROLE, context), EXECUTION_ROLE, both).allowed
        for context in (*BOUNDARIES.values(), {})
    ]
    assert decided == [not action.startswith("Delete"), False, False]


@pytest.mark.parametrize("row", ROWS["refused"], ids=lambda row: row["action"])
def test_it_is_too_little_for_anything_else(
    permits: Callable[[Question], bool], row: dict[str, str]
) -> None:
    assert not permits(question(row))


@pytest.mark.parametrize("row", ROWS["allowed"], ids=lambda row: row["action"])
def test_what_a_deployment_does_is_allowed(
    permits: Callable[[Question], bool], row: dict[str, str]
) -> None:
    assert permits(question(row))


PEOPLE: list[dict[str, Any]] = read("people.yaml")["rows"]
POLICIES = {job: policy_for(job, [Names(load_environment("dev", ROOT))]) for job in JOBS}
SOMEBODY = "arn:aws:iam::111122223333:role/somebody"


@pytest.mark.parametrize("row", PEOPLE, ids=lambda row: f"{row['action']} {row['may']}")
def test_a_job_may_do_its_own_and_no_other(evaluator: Evaluator, row: dict[str, Any]) -> None:
    asked = question({key: row[key] for key in row if key != "may"})
    on_key = {"Statement": [TO_ACCOUNT]} if asked.service == "kms" else None
    allowed = [
        job
        for job, policy in POLICIES.items()
        if evaluator.decide(asked, SOMEBODY, {"people": policy}, resource_policy=on_key).allowed
    ]
    assert allowed == row["may"]


@pytest.mark.parametrize("job", JOBS)
def test_a_policy_of_one_workload_fits_into_a_managed_policy(job: str) -> None:
    assert len(json.dumps(POLICIES[job], separators=(",", ":"))) <= MAX_LENGTH
