"""The charts of an environment's network: places and routes, and who may connect to whom."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from dev.tools.pictures.deployment import Deployment
from dev.tools.pictures.mermaid import Chart, Group, Node

_INTERNET = "0.0.0.0/0"
_NOBODY = "255.255.255.255/32"
"""What the CDK writes for a group that may open no connection."""


def places(deployment: Deployment) -> Chart:
    """Return the VPC with its zones and subnets, and where their routes lead."""
    chart = Chart("LR")
    resources = deployment.templates.resources
    ((_, vpc),) = resources("AWS::EC2::VPC")
    chart.groups["vpc"] = Group(f"VPC {vpc['CidrBlock']}")
    for logical_id, subnet in resources("AWS::EC2::Subnet"):
        zone = subnet["AvailabilityZoneId"]
        chart.groups[zone] = Group(f"zone {zone}", "vpc")
        (name,) = [tag["Value"] for tag in subnet["Tags"] if tag["Key"] == "Name"]
        name = name.removeprefix(f"{deployment.prefix}-").removesuffix(f"-{zone}")
        chart.nodes[f"subnet-{logical_id}"] = Node(
            (f"<b>subnet {name}</b>", subnet["CidrBlock"]), zone
        )
    _add_endpoints(chart, deployment)
    for logical_id, gateway in resources("AWS::EC2::NatGateway"):
        public = chart.nodes.pop(gateway["SubnetId"])
        chart.nodes[logical_id] = Node((*public.lines, "NAT gateway"), public.group)
    for logical_id, _ in resources("AWS::EC2::InternetGateway"):
        chart.nodes[logical_id] = Node(("internet gateway",), "vpc")
    _add_routes(chart, deployment)
    for logical_id, file_system in resources("AWS::FSx::FileSystem"):
        (subnet_id,) = file_system["SubnetIds"]
        chart.nodes[logical_id] = _in_subnet(chart, subnet_id, "FSx for Lustre")
    return chart


def _add_endpoints(chart: Chart, deployment: Deployment) -> None:
    """Add the gateway endpoint with what its policy reaches, and the interface endpoints."""
    for logical_id, endpoint in deployment.templates.resources("AWS::EC2::VPCEndpoint"):
        service = endpoint["ServiceName"].split(".", 3)[3]
        if endpoint["VpcEndpointType"] == "Gateway":
            chart.nodes[logical_id] = Node((f"<b>gateway endpoint {service}</b>",), "vpc")
            buckets = ("<b>these buckets only</b>", *_buckets(endpoint, deployment))
            chart.nodes["buckets"] = Node(buckets, stores=True)
            chart.arrows[logical_id, "buckets"] = ""
        else:
            (subnet_id,) = endpoint["SubnetIds"]
            before = _in_subnet(chart, subnet_id, "interface endpoints")
            before = chart.nodes.get("interfaces", before)
            chart.nodes["interfaces"] = Node((*before.lines, service), before.group)


def _in_subnet(chart: Chart, subnet_id: str, name: str) -> Node:
    subnet = chart.nodes[subnet_id]
    where = re.sub("<.*?>", "", subnet.lines[0])
    return Node((f"<b>{name}</b>", f"in {where}"), subnet.group)


def _buckets(endpoint: dict[str, Any], deployment: Deployment) -> Iterator[str]:
    """Yield the short names of the buckets in an endpoint's policy."""
    for statement in endpoint["PolicyDocument"]["Statement"]:
        for arn in statement["Resource"]:
            if not arn.endswith("/*"):
                yield bucket_name(arn, deployment.prefix)


def bucket_name(arn: str, prefix: str) -> str:
    """Return the name of a bucket without what all names of the environment have, as in `data`."""
    name = arn.rpartition(":::")[2].partition("/")[0]
    if name.startswith("cdk-"):
        return "the CDK's assets"
    return name.removeprefix(f"{prefix}-").partition("-")[0]


def _add_routes(chart: Chart, deployment: Deployment) -> None:
    resources = deployment.templates.resources
    subnets = {
        each["RouteTableId"]: each["SubnetId"]
        for _, each in resources("AWS::EC2::SubnetRouteTableAssociation")
    }
    for logical_id, endpoint in resources("AWS::EC2::VPCEndpoint"):
        for table in endpoint.get("RouteTableIds", ()):
            chart.arrows[subnets[table], logical_id] = ""
    nat = {each["SubnetId"]: key for key, each in resources("AWS::EC2::NatGateway")}
    for _, route in resources("AWS::EC2::Route"):
        subnet = subnets[route["RouteTableId"]]
        to = route.get("NatGatewayId") or route["GatewayId"]
        chart.arrows[nat.get(subnet, subnet), to] = route["DestinationCidrBlock"]


def connections(deployment: Deployment) -> Chart:
    """Return an arrow from each security group to those to which it may open connections: both
    ends have a rule for it.
    """
    chart = Chart("LR")
    resources = deployment.templates.resources
    groups = dict(resources("AWS::EC2::SecurityGroup"))
    for logical_id, group in groups.items():
        name, _, rule = group["GroupDescription"].partition(": ")
        chart.nodes[f"sg-{logical_id}"] = Node((f"<b>{name}</b>", rule))
    chart.nodes[_INTERNET] = Node(("any address",))
    out = [
        *((f"sg-{key}", each) for key, group in groups.items() for each in _outbound(group)),
        *((each["GroupId"], each) for _, each in resources("AWS::EC2::SecurityGroupEgress")),
    ]
    for source, rule in out:
        if rule.get("CidrIp") == _INTERNET:
            chart.arrows[source, _INTERNET] = _ports(rule)
    for _, rule in resources("AWS::EC2::SecurityGroupIngress"):
        ends = (rule["SourceSecurityGroupId"], rule["GroupId"])
        if any(source == ends[0] and _covers(each, rule) for source, each in out):
            before = chart.arrows.get(ends)
            chart.arrows[ends] = f"{before}, {_ports(rule)}" if before else _ports(rule)
    return chart


def _outbound(group: dict[str, Any]) -> list[dict[str, Any]]:
    return [rule for rule in group["SecurityGroupEgress"] if rule["CidrIp"] != _NOBODY]


def _covers(outbound: dict[str, Any], inbound: dict[str, Any]) -> bool:
    """Whether what an outbound rule lets out is what an inbound rule lets in."""
    to = outbound.get("DestinationSecurityGroupId", _INTERNET)
    return to in (_INTERNET, inbound["GroupId"]) and _ports(outbound) == _ports(inbound)


def _ports(rule: dict[str, Any]) -> str:
    if rule["IpProtocol"] == "-1":
        return "everything"
    first, last = rule["FromPort"], rule["ToPort"]
    return f"{rule['IpProtocol']} {first}" + ("" if first == last else f"-{last}")
