"""AWS::EC2: VPC endpoints, security groups and their rules.

moto keeps and describes networks. No packet flows anywhere, and flow logs stay empty. Rules of a
group are inline, or resources of their own, as a group that names itself needs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from moto.backends import get_backend

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceError,
    ResourceType,
    ignore_missing,
    names,
    undo_on_failure,
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


PORTS = ("FromPort", "ToPort")
ALL_TRAFFIC = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
RULE = "IpProtocol FromPort ToPort Description CidrIp CidrIpv6"


def ip_permission(rule: Mapping[str, Any], peer: str, prefix: str) -> dict[str, Any]:
    """Return a rule of CloudFormation as an IpPermission of EC2."""
    described = {"Description": rule["Description"]} if rule.get("Description") else {}
    result: dict[str, Any] = {
        "IpProtocol": str(rule["IpProtocol"]),
        **{name: rule[name] for name in PORTS if name in rule},
    }
    if rule.get("CidrIp"):
        result["IpRanges"] = [{"CidrIp": rule["CidrIp"], **described}]
    elif rule.get("CidrIpv6"):
        result["Ipv6Ranges"] = [{"CidrIpv6": rule["CidrIpv6"], **described}]
    elif rule.get(peer):
        result["UserIdGroupPairs"] = [{"GroupId": rule[peer], **described}]
    elif rule.get(prefix):
        result["PrefixListIds"] = [{"PrefixListId": rule[prefix], **described}]
    else:
        raise ResourceError(f"a security group rule needs CidrIp, CidrIpv6, {peer} or {prefix}")
    return result


CONVERT = {
    "Ingress": partial(ip_permission, peer="SourceSecurityGroupId", prefix="SourcePrefixListId"),
    "Egress": partial(
        ip_permission, peer="DestinationSecurityGroupId", prefix="DestinationPrefixListId"
    ),
}


class SecurityGroup(ResourceType):
    type_name = "AWS::EC2::SecurityGroup"
    properties = names(
        "GroupName GroupDescription VpcId SecurityGroupIngress SecurityGroupEgress Tags"
    )
    replaced_by = names("GroupName GroupDescription VpcId")

    def create(self, request: Request) -> Created:
        group_id = request.call(
            "ec2",
            "CreateSecurityGroup",
            GroupName=request.name("GroupName", 255),
            Description=request["GroupDescription"],
            **request.only("VpcId"),
        )["GroupId"]
        created = replace(request, physical_id=group_id)
        with undo_on_failure(lambda: self.delete(created)):
            if request.get("SecurityGroupEgress"):
                _change("Revoke", "Egress", request, group_id, ALL_TRAFFIC)
            self.update(created)
        attributes = {"GroupId": group_id, "Id": group_id, "VpcId": request.get("VpcId", "")}
        return Created(group_id, attributes)

    def update(self, request: Request) -> Created:
        for direction, convert in CONVERT.items():
            name = f"SecurityGroup{direction}"
            rules = [convert(rule) for rule in request.get(name, [])]
            old_rules = [convert(rule) for rule in request.old.get(name, [])]
            for rule in old_rules:
                if rule not in rules:
                    _change("Revoke", direction, request, request.physical_id, rule)
            for rule in rules:
                if rule not in old_rules:
                    _change("Authorize", direction, request, request.physical_id, rule)
        request.retag("ec2", request.physical_id)
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        request.call("ec2", "DeleteSecurityGroup", GroupId=request.physical_id)


class Rule(ResourceType):
    """One rule of a group as a resource.

    An update deletes the old rule first: a group cannot have two that are equal.
    """

    def __init__(self, direction: str, peers: str) -> None:
        self.type_name = f"AWS::EC2::SecurityGroup{direction}"
        self.direction, self.properties = direction, names(f"GroupId {RULE} {peers}")

    def create(self, request: Request) -> Created:
        rule = CONVERT[self.direction](request.properties)
        answer = _change("Authorize", self.direction, request, request["GroupId"], rule)
        rules = answer.get("SecurityGroupRules", [])
        rule_id = rules[0]["SecurityGroupRuleId"] if rules else request.generated_name()
        return Created(rule_id, {"Id": rule_id})

    def delete(self, request: Request) -> None:
        rule = CONVERT[self.direction](request.properties)
        _change("Revoke", self.direction, request, request["GroupId"], rule)

    def update(self, request: Request) -> Created:
        ignore_missing(lambda: self.delete(replace(request, properties=request.old)))
        return self.create(request)


def _change(
    verb: str, direction: str, request: Request, group_id: str, rule: Mapping[str, Any]
) -> dict[str, Any]:
    operation = f"{verb}SecurityGroup{direction}"
    return request.call("ec2", operation, GroupId=group_id, IpPermissions=[rule])


TYPES: tuple[ResourceType, ...] = (
    VpcEndpoint(),
    SecurityGroup(),
    Rule("Ingress", "SourceSecurityGroupId SourcePrefixListId SourceSecurityGroupOwnerId"),
    Rule("Egress", "DestinationSecurityGroupId DestinationPrefixListId"),
)
