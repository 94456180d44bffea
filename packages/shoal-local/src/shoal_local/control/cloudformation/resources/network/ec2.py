"""AWS::EC2: networks.

moto keeps and describes everything. No packet flows anywhere, and flow logs stay empty.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from moto.backends import get_backend

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceError,
    ResourceType,
    ignore_missing,
    names,
)


def tag(request: Request, resource_id: str) -> None:
    """Put the resource's and the stack's tags on an EC2 resource."""
    ec2 = request.client("ec2")
    request.retag(
        lambda: ec2.create_tags(Resources=[resource_id], Tags=request.tags()),
        lambda keys: ec2.delete_tags(Resources=[resource_id], Tags=[{"Key": key} for key in keys]),
    )


class Tagged(ResourceType):
    """A resource with nothing but tags that can be changed in place."""

    identifier: ClassVar[str]

    def update(self, request: Request) -> Created:
        tag(request, request.physical_id)
        return Created(request.physical_id, request.attributes)

    def needs_replacement(self, request: Request) -> bool:
        return request.changed(*(self.properties - {"Tags"}))


class Vpc(ResourceType):
    type_name = "AWS::EC2::VPC"
    properties = names("CidrBlock EnableDnsHostnames EnableDnsSupport InstanceTenancy Tags")
    replaced_by = names("CidrBlock InstanceTenancy")

    def create(self, request: Request) -> Created:
        vpc = request.client("ec2").create_vpc(**request.only("CidrBlock", "InstanceTenancy"))[
            "Vpc"
        ]
        self._configure(request, vpc["VpcId"])
        return Created(vpc["VpcId"], self._attributes(request, vpc["VpcId"]))

    def update(self, request: Request) -> Created:
        self._configure(request, request.physical_id)
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        request.client("ec2").delete_vpc(VpcId=request.physical_id)

    def _configure(self, request: Request, vpc_id: str) -> None:
        for name in ("EnableDnsSupport", "EnableDnsHostnames"):
            if request.changed(name) and name in request.properties:
                request.client("ec2").modify_vpc_attribute(
                    VpcId=vpc_id, **{name: {"Value": as_bool(request[name])}}
                )
        tag(request, vpc_id)

    def _attributes(self, request: Request, vpc_id: str) -> dict[str, Any]:
        ec2 = request.client("ec2")
        of_vpc = [{"Name": "vpc-id", "Values": [vpc_id]}]
        groups = ec2.describe_security_groups(
            Filters=[*of_vpc, {"Name": "group-name", "Values": ["default"]}]
        )["SecurityGroups"]
        acls = ec2.describe_network_acls(
            Filters=[*of_vpc, {"Name": "default", "Values": ["true"]}]
        )["NetworkAcls"]
        return {
            "VpcId": vpc_id,
            "CidrBlock": request["CidrBlock"],
            "DefaultSecurityGroup": groups[0]["GroupId"],
            "DefaultNetworkAcl": acls[0]["NetworkAclId"] if acls else "",
            "CidrBlockAssociations": [],
            "Ipv6CidrBlocks": [],
        }


class Subnet(ResourceType):
    type_name = "AWS::EC2::Subnet"
    properties = names(
        "VpcId CidrBlock AvailabilityZone AvailabilityZoneId MapPublicIpOnLaunch Tags"
    )
    replaced_by = names("VpcId CidrBlock AvailabilityZone AvailabilityZoneId")

    def create(self, request: Request) -> Created:
        ec2 = request.client("ec2")
        arguments = request.only("VpcId", "CidrBlock", "AvailabilityZone", "AvailabilityZoneId")
        subnet = ec2.create_subnet(**arguments)["Subnet"]
        self._configure(request, subnet["SubnetId"])
        attributes = {
            name: subnet.get(name)
            for name in ("SubnetId", "AvailabilityZone", "AvailabilityZoneId", "CidrBlock", "VpcId")
        }
        acls = ec2.describe_network_acls(Filters=[{"Name": "vpc-id", "Values": [subnet["VpcId"]]}])[
            "NetworkAcls"
        ]
        association = next(
            (
                item["NetworkAclAssociationId"]
                for acl in acls
                for item in acl["Associations"]
                if item["SubnetId"] == subnet["SubnetId"]
            ),
            "",
        )
        return Created(
            subnet["SubnetId"],
            {**attributes, "NetworkAclAssociationId": association, "Ipv6CidrBlocks": []},
        )

    def update(self, request: Request) -> Created:
        self._configure(request, request.physical_id)
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        request.client("ec2").delete_subnet(SubnetId=request.physical_id)

    def _configure(self, request: Request, subnet_id: str) -> None:
        if "MapPublicIpOnLaunch" in request.properties:
            value = {"Value": as_bool(request["MapPublicIpOnLaunch"])}
            request.client("ec2").modify_subnet_attribute(
                SubnetId=subnet_id, MapPublicIpOnLaunch=value
            )
        tag(request, subnet_id)


class Simple(Tagged):
    """A type with one call to create it and one to delete it; only its tags can be changed."""

    def __init__(
        self,
        type_name: str,
        properties: str,
        create: Callable[[Request], tuple[str, Mapping[str, Any]]],
        delete: Callable[[Request], object],
    ) -> None:
        self.type_name = type_name  # type: ignore[misc]
        self.properties = names(properties)  # type: ignore[misc]
        self._create, self._delete = create, delete

    def create(self, request: Request) -> Created:
        physical_id, attributes = self._create(request)
        self._tag(request, physical_id, attributes)
        return Created(physical_id, attributes)

    def update(self, request: Request) -> Created:
        self._tag(request, request.physical_id, request.attributes)
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        self._delete(request)

    def _tag(self, request: Request, physical_id: str, attributes: Mapping[str, Any]) -> None:
        """Tag the resource; stacks know an address by its number, tags by its allocation."""
        if "Tags" in self.properties:
            tag(request, str(attributes.get("AllocationId", physical_id)))


def _route_table(request: Request) -> tuple[str, dict[str, Any]]:
    table = request.client("ec2").create_route_table(VpcId=request["VpcId"])["RouteTable"]
    return table["RouteTableId"], {"RouteTableId": table["RouteTableId"]}


def _association(request: Request) -> tuple[str, dict[str, Any]]:
    response = request.client("ec2").associate_route_table(
        **request.only("RouteTableId", "SubnetId")
    )
    return response["AssociationId"], {"Id": response["AssociationId"]}


def _internet_gateway(request: Request) -> tuple[str, dict[str, Any]]:
    gateway = request.client("ec2").create_internet_gateway()["InternetGateway"]
    return gateway["InternetGatewayId"], {"InternetGatewayId": gateway["InternetGatewayId"]}


def _attachment(request: Request) -> tuple[str, dict[str, Any]]:
    request.client("ec2").attach_internet_gateway(**request.only("InternetGatewayId", "VpcId"))
    return f"IGW|{request['VpcId']}", {"AttachmentType": "IGW"}


def _route(request: Request) -> tuple[str, dict[str, Any]]:
    request.client("ec2").create_route(**request.properties)
    return f"{request['RouteTableId']}|{request['DestinationCidrBlock']}", {
        "CidrBlock": request["DestinationCidrBlock"]
    }


def _address(request: Request) -> tuple[str, dict[str, Any]]:
    address = request.client("ec2").allocate_address(Domain=request.get("Domain", "vpc"))
    return address["PublicIp"], {
        "AllocationId": address["AllocationId"],
        "PublicIp": address["PublicIp"],
    }


def _nat_gateway(request: Request) -> tuple[str, dict[str, Any]]:
    gateway = request.client("ec2").create_nat_gateway(
        **request.only("SubnetId", "AllocationId", "ConnectivityType")
    )["NatGateway"]
    return gateway["NatGatewayId"], {"NatGatewayId": gateway["NatGatewayId"]}


def _flow_log(request: Request) -> tuple[str, dict[str, Any]]:
    arguments = request.only(
        "ResourceType",
        "TrafficType",
        "LogDestinationType",
        "LogDestination",
        "LogGroupName",
        "LogFormat",
    )
    response = request.client("ec2").create_flow_logs(
        ResourceIds=[request["ResourceId"]],
        **arguments,
        **request.only("DeliverLogsPermissionArn"),
        **(
            {"MaxAggregationInterval": int(request["MaxAggregationInterval"])}
            if "MaxAggregationInterval" in request.properties
            else {}
        ),
    )
    if response.get("Unsuccessful"):
        raise ResourceError(response["Unsuccessful"][0]["Error"]["Message"])
    return response["FlowLogIds"][0], {"Id": response["FlowLogIds"][0]}


class VpcEndpoint(ResourceType):
    type_name = "AWS::EC2::VPCEndpoint"
    properties = names(
        "ServiceName VpcId VpcEndpointType RouteTableIds SubnetIds SecurityGroupIds PolicyDocument"
        " PrivateDnsEnabled Tags"
    )
    replaced_by = names("ServiceName VpcId VpcEndpointType")

    def create(self, request: Request) -> Created:
        arguments = request.only(
            "ServiceName",
            "VpcId",
            "VpcEndpointType",
            "RouteTableIds",
            "SubnetIds",
            "SecurityGroupIds",
        )
        private_dns = (
            {"PrivateDnsEnabled": as_bool(request["PrivateDnsEnabled"])}
            if "PrivateDnsEnabled" in request.properties
            else {}
        )
        response = request.client("ec2").create_vpc_endpoint(
            **arguments, **private_dns, **_policy(request)
        )["VpcEndpoint"]
        tag(request, response["VpcEndpointId"])
        return Created(
            response["VpcEndpointId"],
            {
                "Id": response["VpcEndpointId"],
                "CreationTimestamp": str(response.get("CreationTimestamp", "")),
            },
        )

    def update(self, request: Request) -> Created:
        changes: dict[str, Any] = _policy(request) if request.changed("PolicyDocument") else {}
        for name in ("RouteTableIds", "SubnetIds", "SecurityGroupIds"):
            new, old = set(request.get(name, [])), set(request.old.get(name, []))
            if new - old:
                changes[f"Add{name}"] = sorted(new - old)
            if old - new:
                changes[f"Remove{name}"] = sorted(old - new)
        if changes:
            request.client("ec2").modify_vpc_endpoint(VpcEndpointId=request.physical_id, **changes)
        tag(request, request.physical_id)
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        ignore_missing(
            lambda: request.client("ec2").delete_vpc_endpoints(VpcEndpointIds=[request.physical_id])
        )
        # moto lists a deleted endpoint for ever, with the state "deleted". AWS forgets it.
        get_backend("ec2")[request.account][request.region].vpc_end_points.pop(
            request.physical_id, None
        )


def _policy(request: Request) -> dict[str, str]:
    document = request.get("PolicyDocument")
    return (
        {"PolicyDocument": document if isinstance(document, str) else json.dumps(document)}
        if document
        else {}
    )


def as_bool(value: Any) -> bool:
    """Return a boolean, which templates may write as text."""
    return value if isinstance(value, bool) else str(value).lower() == "true"


TYPES: tuple[ResourceType, ...] = (
    Vpc(),
    Subnet(),
    VpcEndpoint(),
    Simple(
        "AWS::EC2::RouteTable",
        "VpcId Tags",
        _route_table,
        lambda request: request.client("ec2").delete_route_table(RouteTableId=request.physical_id),
    ),
    Simple(
        "AWS::EC2::SubnetRouteTableAssociation",
        "RouteTableId SubnetId",
        _association,
        lambda request: request.client("ec2").disassociate_route_table(
            AssociationId=request.physical_id
        ),
    ),
    Simple(
        "AWS::EC2::InternetGateway",
        "Tags",
        _internet_gateway,
        lambda request: request.client("ec2").delete_internet_gateway(
            InternetGatewayId=request.physical_id
        ),
    ),
    Simple(
        "AWS::EC2::VPCGatewayAttachment",
        "InternetGatewayId VpcId",
        _attachment,
        lambda request: request.client("ec2").detach_internet_gateway(
            **request.only("InternetGatewayId", "VpcId")
        ),
    ),
    Simple(
        "AWS::EC2::Route",
        "RouteTableId DestinationCidrBlock GatewayId NatGatewayId",
        _route,
        lambda request: request.client("ec2").delete_route(
            **request.only("RouteTableId", "DestinationCidrBlock")
        ),
    ),
    Simple(
        "AWS::EC2::EIP",
        "Domain Tags",
        _address,
        lambda request: request.client("ec2").release_address(
            AllocationId=request.attributes["AllocationId"]
        ),
    ),
    Simple(
        "AWS::EC2::NatGateway",
        "SubnetId AllocationId ConnectivityType Tags",
        _nat_gateway,
        lambda request: request.client("ec2").delete_nat_gateway(NatGatewayId=request.physical_id),
    ),
    Simple(
        "AWS::EC2::FlowLog",
        "ResourceId ResourceType TrafficType LogDestinationType LogDestination LogGroupName"
        " LogFormat DeliverLogsPermissionArn MaxAggregationInterval Tags",
        _flow_log,
        lambda request: request.client("ec2").delete_flow_logs(FlowLogIds=[request.physical_id]),
    ),
)
