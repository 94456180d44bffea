"""The network when the settings ask for more, or for a VPC that exists already."""

from __future__ import annotations

from typing import Any

import pytest
from aws_cdk.assertions import Template

from tests.stacks.reading import properties, resources
from tests.stacks.variants import EXISTING, TRAINING_SUBNET, network_template, variant

SERVICES = ["sagemaker.api", "sts", "ecr.dkr"]


def _network(tmp_path_factory: pytest.TempPathFactory, **section: Any) -> Template:
    folder = tmp_path_factory.mktemp("variant")
    return network_template(variant(folder, "variant", network=section), folder / "cdk.out")


@pytest.fixture(scope="module")
def connected(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """With a NAT gateway and three interface endpoints."""
    return _network(tmp_path_factory, nat=True, interface_endpoints=SERVICES)


@pytest.fixture(scope="module")
def existing(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """In a VPC that exists already."""
    return _network(tmp_path_factory, existing=EXISTING)


def test_a_nat_gateway_stands_in_a_public_subnet_of_its_own_in_trainings_zone(
    connected: Template,
) -> None:
    (gateway,) = properties(connected, "AWS::EC2::NatGateway")
    subnet = resources(connected, "AWS::EC2::Subnet")[gateway["SubnetId"]["Ref"]]["Properties"]
    assert (subnet["CidrBlock"], subnet["AvailabilityZoneId"]) == ("10.20.127.240/28", "use1-az4")
    assert subnet["MapPublicIpOnLaunch"] is False


def test_every_private_subnet_reaches_the_internet_through_the_nat_gateway_only(
    connected: Template,
) -> None:
    routes = properties(connected, "AWS::EC2::Route")
    assert sum("NatGatewayId" in route for route in routes) == 3
    assert sum("GatewayId" in route for route in routes) == 1


def test_the_rule_that_lets_https_out_says_that_it_reaches_the_internet(
    connected: Template,
) -> None:
    (training,) = [
        group
        for group in properties(connected, "AWS::EC2::SecurityGroup")
        if group["GroupDescription"].startswith("Training")
    ]
    (rule,) = training["SecurityGroupEgress"]
    assert (rule["FromPort"], rule["ToPort"], rule["Description"]) == (
        443,
        443,
        "HTTPS to the internet and S3",
    )


def test_interface_endpoints_are_made_for_the_services_that_are_named_in_one_zone(
    connected: Template,
) -> None:
    endpoints = [
        each
        for each in properties(connected, "AWS::EC2::VPCEndpoint")
        if each["VpcEndpointType"] == "Interface"
    ]
    assert {each["ServiceName"] for each in endpoints} == {
        f"com.amazonaws.us-east-1.{name}" for name in ("sagemaker.api", "sts", "ecr.dkr")
    }
    assert all(len(each["SubnetIds"]) == 1 and each["PrivateDnsEnabled"] for each in endpoints)


def test_interface_endpoints_serve_only_our_own_instances_and_account(connected: Template) -> None:
    ingress = [
        rule
        for rule in properties(connected, "AWS::EC2::SecurityGroupIngress")
        if rule["IpProtocol"] == "tcp"
    ]
    assert [
        (rule["FromPort"], rule["ToPort"], "SourceSecurityGroupId" in rule) for rule in ingress
    ] == [(443, 443, True)] * 2
    policies = [
        each["PolicyDocument"]["Statement"][0]
        for each in properties(connected, "AWS::EC2::VPCEndpoint")
    ]
    assert all(
        statement["Condition"] == {"StringEquals": {"aws:PrincipalAccount": "111122223333"}}
        for statement in policies
    )


def test_pulling_images_through_the_vpc_opens_the_bucket_of_their_layers(
    connected: Template,
) -> None:
    (gateway,) = [
        each
        for each in properties(connected, "AWS::EC2::VPCEndpoint")
        if each["VpcEndpointType"] == "Gateway"
    ]
    statement = gateway["PolicyDocument"]["Statement"][1]
    assert (statement["Action"], statement["Resource"]) == (
        "s3:GetObject",
        "arn:aws:s3:::prod-us-east-1-starport-layer-bucket/*",
    )


def test_training_gets_half_of_a_vpc_that_is_small_for_its_nodes(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("variant")
    training = {"strategy": "torchrun", "instance_type": "ml.p5.48xlarge", "instance_count": 16}
    small = network_template(
        variant(folder, "small", network={"cidr": "10.20.0.0/20"}, training=training),
        folder / "cdk.out",
    )
    ranges = [subnet["CidrBlock"] for subnet in properties(small, "AWS::EC2::Subnet")]
    assert ranges == ["10.20.8.0/21", "10.20.4.0/24", "10.20.5.0/24"]


def test_in_an_existing_vpc_nothing_but_security_groups_is_made(existing: Template) -> None:
    types = {
        resource["Type"].removeprefix("AWS::EC2::")
        for resource in existing.to_json()["Resources"].values()
    }
    assert types == {"SecurityGroup", "SecurityGroupIngress", "SecurityGroupEgress"}
    assert {group["VpcId"] for group in properties(existing, "AWS::EC2::SecurityGroup")} == {
        EXISTING["vpc_id"]
    }


def test_in_an_existing_vpc_the_training_group_names_itself_in_both_directions(
    existing: Template,
) -> None:
    (inwards,), (outwards,) = (
        properties(existing, f"AWS::EC2::SecurityGroup{direction}")
        for direction in ("Ingress", "Egress")
    )
    assert (
        inwards["GroupId"]
        == inwards["SourceSecurityGroupId"]
        == outwards["GroupId"]
        == outwards["DestinationSecurityGroupId"]
    )
    assert (inwards["IpProtocol"], outwards["IpProtocol"]) == ("-1", "-1")


def test_other_stacks_get_the_ids_of_the_existing_subnets(existing: Template) -> None:
    assert existing.to_json()["Outputs"]["TrainingSubnetId"]["Value"] == TRAINING_SUBNET


def test_an_existing_security_group_is_used_as_it_is(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    template = _network(
        tmp_path_factory, existing=EXISTING | {"training_security_group_id": "sg-0123456789abcdef0"}
    )
    assert (
        template.to_json()["Outputs"]["TrainingSecurityGroupId"]["Value"] == "sg-0123456789abcdef0"
    )
    template.resource_count_is("AWS::EC2::SecurityGroup", 1)
