"""AWS::EC2::VPCEndpoint.

moto keeps and describes networks. No packet flows anywhere, and flow logs stay empty.
"""

from __future__ import annotations

from typing import Any

from moto.backends import get_backend

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceType,
    ignore_missing,
    names,
)


class VpcEndpoint(ResourceType):
    type_name = "AWS::EC2::VPCEndpoint"
    properties = names(
        "ServiceName VpcId VpcEndpointType RouteTableIds SubnetIds SecurityGroupIds PolicyDocument"
        " PrivateDnsEnabled Tags"
    )
    replaced_by = names("ServiceName VpcId VpcEndpointType")

    def create(self, request: Request) -> Created:
        arguments = request.only(*self.properties - {"Tags"})
        endpoint = request.call("ec2", "CreateVpcEndpoint", **arguments)["VpcEndpoint"]
        request.retag("ec2", endpoint["VpcEndpointId"])
        created_at = str(endpoint.get("CreationTimestamp", ""))
        attributes = {"Id": endpoint["VpcEndpointId"], "CreationTimestamp": created_at}
        return Created(endpoint["VpcEndpointId"], attributes)

    def update(self, request: Request) -> Created:
        changed = request.changed("PolicyDocument")
        changes: dict[str, Any] = request.only("PolicyDocument") if changed else {}
        for name in ("RouteTableIds", "SubnetIds", "SecurityGroupIds"):
            new, old = set(request.get(name, [])), set(request.old.get(name, []))
            changes[f"Add{name}"] = sorted(new - old) or None
            changes[f"Remove{name}"] = sorted(old - new) or None
        if any(changes.values()):
            endpoint_id = request.physical_id
            request.call("ec2", "ModifyVpcEndpoint", VpcEndpointId=endpoint_id, **changes)
        request.retag("ec2", request.physical_id)
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        ids = [request.physical_id]
        ignore_missing(lambda: request.call("ec2", "DeleteVpcEndpoints", VpcEndpointIds=ids))
        # moto lists a deleted endpoint for ever, with the state "deleted". AWS forgets it.
        endpoints = get_backend("ec2")[request.account][request.region].vpc_end_points
        endpoints.pop(request.physical_id, None)


TYPES: tuple[ResourceType, ...] = (VpcEndpoint(),)
