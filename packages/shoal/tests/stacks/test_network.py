"""The network: EFA works in it, and nothing in it reaches the internet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aws_cdk.assertions import Match, Template

from stacks.platform import EnvironmentStage
from tests.stacks.reading import properties, resources


def _training_group(network: Template) -> str:
    ((logical_id, _),) = [
        (key, value)
        for key, value in resources(network, "AWS::EC2::SecurityGroup").items()
        if value["Properties"]["GroupDescription"].startswith("Training nodes")
    ]
    return logical_id


def _group_id(logical_id: str) -> dict[str, Any]:
    return {"Fn::GetAtt": [logical_id, "GroupId"]}


def test_training_nodes_accept_everything_from_their_own_security_group(network: Template) -> None:
    own = _group_id(_training_group(network))
    network.has_resource_properties(
        "AWS::EC2::SecurityGroupIngress",
        {"IpProtocol": "-1", "GroupId": own, "SourceSecurityGroupId": own},
    )


def test_training_nodes_may_send_everything_to_their_own_security_group(network: Template) -> None:
    own = _group_id(_training_group(network))
    network.has_resource_properties(
        "AWS::EC2::SecurityGroupEgress",
        {"IpProtocol": "-1", "GroupId": own, "DestinationSecurityGroupId": own},
    )


def test_security_groups_let_only_https_out_otherwise(network: Template) -> None:
    egress = [
        rule
        for group in properties(network, "AWS::EC2::SecurityGroup")
        for rule in group["SecurityGroupEgress"]
    ]
    assert [(rule["CidrIp"], rule["FromPort"], rule["ToPort"]) for rule in egress] == [
        ("0.0.0.0/0", 443, 443)
    ] * 2


def test_nothing_from_outside_may_come_in(network: Template) -> None:
    groups = properties(network, "AWS::EC2::SecurityGroup")
    sources = [
        rule.get("SourceSecurityGroupId")
        for rule in properties(network, "AWS::EC2::SecurityGroupIngress")
    ]
    assert not any("SecurityGroupIngress" in group for group in groups)
    assert sources == [_group_id(_training_group(network))]


@pytest.mark.parametrize(
    "resource_type", ["AWS::EC2::InternetGateway", "AWS::EC2::NatGateway", "AWS::EC2::EIP"]
)
def test_no_way_to_the_internet(network: Template, resource_type: str) -> None:
    network.resource_count_is(resource_type, 0)


def test_subnets_lie_in_zones_chosen_by_id(network: Template) -> None:
    subnets = properties(network, "AWS::EC2::Subnet")
    assert [subnet["AvailabilityZoneId"] for subnet in subnets] == [
        "use1-az4",
        "use1-az1",
        "use1-az2",
    ]
    assert not any("AvailabilityZone" in subnet for subnet in subnets)


def test_synth_asks_for_no_context(stages: dict[str, EnvironmentStage]) -> None:
    manifest = json.loads(Path(stages["dev"].synth().directory, "manifest.json").read_text())
    assert "missing" not in manifest


def test_every_subnet_reaches_s3_through_the_gateway_endpoint(network: Template) -> None:
    (endpoint,) = properties(network, "AWS::EC2::VPCEndpoint")
    tables = [{"Ref": key} for key in resources(network, "AWS::EC2::RouteTable")]
    assert endpoint["VpcEndpointType"] == "Gateway"
    assert len(tables) == 3
    assert sorted(endpoint["RouteTableIds"], key=str) == sorted(tables, key=str)


def test_the_endpoint_lets_only_this_account_reach_only_our_buckets(network: Template) -> None:
    (endpoint,) = properties(network, "AWS::EC2::VPCEndpoint")
    (statement,) = endpoint["PolicyDocument"]["Statement"]
    buckets = {
        arn.removesuffix("/*").removeprefix("arn:aws:s3:::") for arn in statement["Resource"]
    }
    assert buckets == {
        "shoal-mnist-dev-data-111122223333-us-east-1",
        "shoal-mnist-dev-artifacts-111122223333-us-east-1",
        "cdk-hnb659fds-assets-111122223333-us-east-1",
    }
    assert statement["Condition"] == {"StringEquals": {"aws:PrincipalAccount": "111122223333"}}


def test_uploads_in_parts_can_be_resumed_through_the_endpoint(network: Template) -> None:
    (endpoint,) = properties(network, "AWS::EC2::VPCEndpoint")
    (statement,) = endpoint["PolicyDocument"]["Statement"]
    assert {"s3:PutObject", "s3:ListMultipartUploadParts"} <= {*statement["Action"]}


def test_all_traffic_is_logged(network: Template) -> None:
    network.has_resource_properties(
        "AWS::EC2::FlowLog",
        {"ResourceType": "VPC", "TrafficType": "ALL", "LogDestinationType": "cloud-watch-logs"},
    )


def test_flow_logs_are_kept_for_three_months(network: Template) -> None:
    network.has_resource_properties(
        "AWS::Logs::LogGroup",
        {"LogGroupName": Match.string_like_regexp("flow-logs$"), "RetentionInDays": 90},
    )
