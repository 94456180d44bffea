"""The inventory, asked of shoal-local."""

from __future__ import annotations

import uuid

import pytest

from shoal.aws.inventory import KINDS, Owner, Resource, of_environment
from shoal.aws.target import Target
from shoal.settings.names import Names
from shoal.settings.settings import Environment
from tests.verbs.conftest import ACCOUNT, make_pipeline
from tests.verbs.test_execution import gate

PREFIX = "shoal-inventory-dev"


def test_an_account_without_the_environment_has_nothing_of_it(target: Target) -> None:
    assert of_environment(target, Owner(f"shoal-{uuid.uuid4().hex}")) == ()


@pytest.mark.parametrize(
    ("name", "owned"),
    [
        (PREFIX, True),
        (f"{PREFIX}-teardown", True),
        (f"{PREFIX}2-teardown", False),
        ("pipelines-abc123-CreateModel-x", True),
        ("other", False),
    ],
)
def test_an_owner_knows_its_prefix_and_its_executions(name: str, owned: bool) -> None:
    assert Owner(PREFIX, ("abc123",)).owns(name) == owned


@pytest.mark.parametrize(
    ("name", "owned"),
    [(f"{PREFIX}-b", False), (f"{PREFIX}-b-teardown", False), (f"{PREFIX}-bucket", True)],
)
def test_an_owner_leaves_a_neighbour_what_is_the_neighbours(name: str, owned: bool) -> None:
    assert Owner(PREFIX, others=(f"{PREFIX}-b",)).owns(name) == owned


def test_each_kind_is_found_and_gone_when_it_is_deleted(target: Target) -> None:
    prefix = f"shoal-{uuid.uuid4().hex[:8]}"
    sqs, logs, s3 = target.client("sqs"), target.client("logs"), target.client("s3")
    url = sqs.create_queue(QueueName=f"{prefix}-queue")["QueueUrl"]
    logs.create_log_group(logGroupName=f"/aws/lambda/{prefix}-teardown")
    s3.create_bucket(Bucket=f"{prefix}-data")
    resources = of_environment(target, Owner(prefix))
    sqs.delete_queue(QueueUrl=url)
    logs.delete_log_group(logGroupName=f"/aws/lambda/{prefix}-teardown")
    s3.delete_bucket(Bucket=f"{prefix}-data")
    assert resources == (
        Resource("bucket", f"{prefix}-data"),
        Resource("log group", f"/aws/lambda/{prefix}-teardown"),
        Resource("queue", f"{prefix}-queue"),
    )
    assert of_environment(target, Owner(prefix)) == ()


def test_a_pipeline_and_its_role_are_found(target: Target) -> None:
    name = f"shoal-{uuid.uuid4().hex[:8]}"
    make_pipeline(target, [gate(met=True)], name=name)
    assert of_environment(target, Owner(name)) == (
        Resource("pipeline", name),
        Resource("role", f"{name}-role"),
    )


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_lister_is_answered(target: Target, kind: str) -> None:
    assert (
        of_environment(target, Owner(f"shoal-{uuid.uuid4().hex}", ("abcdefabcdef",)), [kind]) == ()
    )


@pytest.fixture
def tagged() -> tuple[Owner, list[dict[str, str]]]:
    """Return an environment, and the tags of what is its own."""
    project = f"p{uuid.uuid4().hex[:8]}"
    tags = {"shoal:project": project, "shoal:environment": "dev"}
    settings = Environment(name="dev", workload="churn", project=project, account=ACCOUNT)
    return Owner.of(Names(settings)), [{"Key": key, "Value": tags[key]} for key in tags]


def test_what_costs_money_for_as_long_as_it_exists_is_known_by_its_tags(
    target: Target, tagged: tuple[Owner, list[dict[str, str]]]
) -> None:
    ec2, fsx, (owner, tags) = target.client("ec2"), target.client("fsx"), tagged
    vpc = ec2.create_vpc(CidrBlock="10.8.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.8.0.0/24")["Subnet"]["SubnetId"]
    of_gateway, of_address = (
        [{"ResourceType": kind, "Tags": tags}] for kind in ("natgateway", "elastic-ip")
    )
    address = ec2.allocate_address(Domain="vpc", TagSpecifications=of_address)["AllocationId"]
    gateway = ec2.create_nat_gateway(
        SubnetId=subnet, AllocationId=address, TagSpecifications=of_gateway
    )["NatGateway"]["NatGatewayId"]
    lustre = {"DeploymentType": "SCRATCH_2"}
    response = fsx.create_file_system(
        FileSystemType="LUSTRE",
        StorageCapacity=1200,
        SubnetIds=[subnet],
        LustreConfiguration=lustre,
        Tags=tags,
    )
    file_system = response["FileSystem"]["FileSystemId"]
    resources = of_environment(target, owner)
    fsx.delete_file_system(FileSystemId=file_system)
    ec2.delete_nat_gateway(NatGatewayId=gateway)
    ec2.release_address(AllocationId=address)
    assert resources == (
        Resource("file system", file_system),
        Resource("nat gateway", gateway),
        Resource("public address", address),
    )
    assert of_environment(target, owner) == ()


def test_what_a_network_consists_of_is_known_by_its_tags(
    target: Target, tagged: tuple[Owner, list[dict[str, str]]]
) -> None:
    ec2, (owner, tags) = target.client("ec2"), tagged
    specifications = [{"ResourceType": "vpc", "Tags": tags}]
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16", TagSpecifications=specifications)["Vpc"]["VpcId"]
    resources = of_environment(target, owner)
    ec2.delete_vpc(VpcId=vpc)
    assert resources == (Resource("vpc", vpc),)
    assert of_environment(target, owner) == ()
