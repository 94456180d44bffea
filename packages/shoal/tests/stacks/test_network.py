"""The network: EFA works in it, and nothing in it reaches the internet, unless the settings ask for
more, or for a VPC that exists already.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aws_cdk.assertions import Match, Template

from stacks.platform import EnvironmentStage
from tests.stacks.reading import only, properties, resources
from tests.stacks.variants import EXISTING, TRAINING_SUBNET, network_template, variant

SERVICES = ["sagemaker.api", "sts", "ecr.dkr"]
OWN_ACCOUNT = {"StringEquals": {"aws:PrincipalAccount": "111122223333"}}
PEERS = {"Ingress": "SourceSecurityGroupId", "Egress": "DestinationSecurityGroupId"}


def _variant(tmp_path_factory: pytest.TempPathFactory, **sections: Any) -> Template:
    folder = tmp_path_factory.mktemp("variant")
    return network_template(variant(folder, "variant", **sections), folder / "cdk.out")


@pytest.fixture(scope="module")
def connected(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """With a NAT gateway and three interface endpoints."""
    section = {"nat": True, "interface_endpoints": SERVICES}
    return _variant(tmp_path_factory, network=section)


@pytest.fixture(scope="module")
def existing(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """In a VPC that exists already."""
    return _variant(tmp_path_factory, network={"existing": EXISTING})


def _training_group(network: Template) -> dict[str, Any]:
    """Return a reference to the id of the training nodes' group."""
    (logical_id,) = [
        key
        for key, value in resources(network, "AWS::EC2::SecurityGroup").items()
        if value["Properties"]["GroupDescription"].startswith("Training nodes")
    ]
    return {"Fn::GetAtt": [logical_id, "GroupId"]}


def _endpoints(template: Template, kind: str) -> list[dict[str, Any]]:
    every = properties(template, "AWS::EC2::VPCEndpoint")
    return [each for each in every if each["VpcEndpointType"] == kind]


@pytest.mark.parametrize("direction", PEERS)
@pytest.mark.parametrize("template", ["network", "existing"])
def test_training_nodes_send_everything_to_their_own_security_group_and_accept_it(
    request: pytest.FixtureRequest, template: str, direction: str
) -> None:
    network = request.getfixturevalue(template)
    own = _training_group(network)
    network.has_resource_properties(
        f"AWS::EC2::SecurityGroup{direction}",
        {"IpProtocol": "-1", "GroupId": own, PEERS[direction]: own},
    )


def test_security_groups_let_only_https_out_otherwise(network: Template) -> None:
    egress = [
        (rule["CidrIp"], rule["FromPort"], rule["ToPort"])
        for group in properties(network, "AWS::EC2::SecurityGroup")
        for rule in group["SecurityGroupEgress"]
    ]
    assert egress == [("0.0.0.0/0", 443, 443)] * 2


def test_nothing_from_outside_may_come_in(network: Template) -> None:
    groups = properties(network, "AWS::EC2::SecurityGroup")
    assert not any("SecurityGroupIngress" in group for group in groups)
    rule = only(network, "AWS::EC2::SecurityGroupIngress")
    assert rule["SourceSecurityGroupId"] == _training_group(network)


@pytest.mark.parametrize("kind", ["InternetGateway", "NatGateway", "EIP"])
def test_no_way_to_the_internet(network: Template, kind: str) -> None:
    network.resource_count_is(f"AWS::EC2::{kind}", 0)


def test_subnets_lie_in_zones_chosen_by_id(network: Template) -> None:
    subnets = properties(network, "AWS::EC2::Subnet")
    zones = [subnet["AvailabilityZoneId"] for subnet in subnets]
    assert zones == ["use1-az4", "use1-az1", "use1-az2"]
    assert not any("AvailabilityZone" in subnet for subnet in subnets)


def test_synth_asks_for_no_context(stages: dict[str, EnvironmentStage]) -> None:
    manifest = json.loads(Path(stages["dev"].synth().directory, "manifest.json").read_text())
    assert "missing" not in manifest


def test_every_subnet_reaches_s3_through_the_gateway_endpoint(network: Template) -> None:
    endpoint = only(network, "AWS::EC2::VPCEndpoint")
    tables = [{"Ref": key} for key in resources(network, "AWS::EC2::RouteTable")]
    assert endpoint["VpcEndpointType"] == "Gateway"
    assert len(tables) == 3
    assert sorted(endpoint["RouteTableIds"], key=str) == sorted(tables, key=str)


def test_the_endpoint_lets_only_this_account_reach_only_our_buckets(network: Template) -> None:
    """Uploads in parts can be resumed through it."""
    (statement,) = only(network, "AWS::EC2::VPCEndpoint")["PolicyDocument"]["Statement"]
    buckets = (
        "shoal-mnist-dev-data-111122223333-us-east-1",
        "shoal-mnist-dev-artifacts-111122223333-us-east-1",
        "cdk-hnb659fds-assets-111122223333-us-east-1",
    )
    assert {arn.removesuffix("/*") for arn in statement["Resource"]} == {
        f"arn:aws:s3:::{bucket}" for bucket in buckets
    }
    assert statement["Condition"] == OWN_ACCOUNT
    assert {"s3:PutObject", "s3:ListMultipartUploadParts"} <= {*statement["Action"]}


def test_all_traffic_is_logged_and_the_logs_are_kept_for_three_months(network: Template) -> None:
    traffic = {
        "ResourceType": "VPC",
        "TrafficType": "ALL",
        "LogDestinationType": "cloud-watch-logs",
    }
    network.has_resource_properties("AWS::EC2::FlowLog", traffic)
    network.has_resource_properties(
        "AWS::Logs::LogGroup",
        {"LogGroupName": Match.string_like_regexp("flow-logs$"), "RetentionInDays": 90},
    )


def test_a_nat_gateway_stands_in_a_public_subnet_of_its_own_in_trainings_zone(
    connected: Template,
) -> None:
    gateway = only(connected, "AWS::EC2::NatGateway")
    subnet = resources(connected, "AWS::EC2::Subnet")[gateway["SubnetId"]["Ref"]]["Properties"]
    expected = {
        "CidrBlock": "10.20.127.240/28",
        "AvailabilityZoneId": "use1-az4",
        "MapPublicIpOnLaunch": False,
    }
    assert expected.items() <= subnet.items()


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
    expected = {"FromPort": 443, "ToPort": 443, "Description": "HTTPS to the internet and S3"}
    assert expected.items() <= rule.items()


def test_interface_endpoints_are_made_for_the_services_that_are_named_in_one_zone(
    connected: Template,
) -> None:
    endpoints = _endpoints(connected, "Interface")
    services = {each["ServiceName"] for each in endpoints}
    assert services == {f"com.amazonaws.us-east-1.{name}" for name in SERVICES}
    assert all(len(each["SubnetIds"]) == 1 and each["PrivateDnsEnabled"] for each in endpoints)


def test_interface_endpoints_serve_only_our_own_instances_and_account(connected: Template) -> None:
    ingress = [
        (rule["FromPort"], rule["ToPort"], "SourceSecurityGroupId" in rule)
        for rule in properties(connected, "AWS::EC2::SecurityGroupIngress")
        if rule["IpProtocol"] == "tcp"
    ]
    assert ingress == [(443, 443, True)] * 2
    for each in properties(connected, "AWS::EC2::VPCEndpoint"):
        assert each["PolicyDocument"]["Statement"][0]["Condition"] == OWN_ACCOUNT


def test_pulling_images_through_the_vpc_opens_the_bucket_of_their_layers(
    connected: Template,
) -> None:
    (gateway,) = _endpoints(connected, "Gateway")
    statement = gateway["PolicyDocument"]["Statement"][1]
    assert statement["Action"] == "s3:GetObject"
    assert statement["Resource"] == "arn:aws:s3:::prod-us-east-1-starport-layer-bucket/*"


def test_training_gets_half_of_a_vpc_that_is_small_for_its_nodes(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    training = {"strategy": "torchrun", "instance_type": "ml.p5.48xlarge", "instance_count": 16}
    small = _variant(tmp_path_factory, network={"cidr": "10.20.0.0/20"}, training=training)
    ranges = [subnet["CidrBlock"] for subnet in properties(small, "AWS::EC2::Subnet")]
    assert ranges == ["10.20.8.0/21", "10.20.4.0/24", "10.20.5.0/24"]


def test_in_an_existing_vpc_nothing_but_security_groups_is_made(existing: Template) -> None:
    document = existing.to_json()
    types = {each["Type"].removeprefix("AWS::EC2::") for each in document["Resources"].values()}
    assert types == {"SecurityGroup", "SecurityGroupIngress", "SecurityGroupEgress"}
    groups = properties(existing, "AWS::EC2::SecurityGroup")
    assert {group["VpcId"] for group in groups} == {EXISTING["vpc_id"]}
    assert document["Outputs"]["TrainingSubnetId"]["Value"] == TRAINING_SUBNET


def test_an_existing_security_group_is_used_as_it_is(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    group = "sg-0123456789abcdef0"
    ids = EXISTING | {"training_security_group_id": group}
    template = _variant(tmp_path_factory, network={"existing": ids})
    assert template.to_json()["Outputs"]["TrainingSecurityGroupId"]["Value"] == group
    template.resource_count_is("AWS::EC2::SecurityGroup", 1)
