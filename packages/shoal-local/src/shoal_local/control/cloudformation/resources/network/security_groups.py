"""AWS::EC2: security groups and their rules.

Rules are inline, or resources of their own, as a group that names itself needs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceError,
    ResourceType,
    ignore_missing,
    names,
    undo_on_failure,
)
from shoal_local.control.cloudformation.resources.network.ec2 import tag

PORTS = ("FromPort", "ToPort")
ALL_TRAFFIC = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
RULE = "IpProtocol FromPort ToPort Description CidrIp CidrIpv6"


def ip_permission(
    rule: Mapping[str, Any], peer_property: str, prefix_property: str
) -> dict[str, Any]:
    """Return a rule of CloudFormation as an IpPermission of EC2."""
    described = {"Description": rule["Description"]} if rule.get("Description") else {}
    result: dict[str, Any] = {
        "IpProtocol": str(rule["IpProtocol"]),
        **{name: int(rule[name]) for name in PORTS if name in rule},
    }
    if rule.get("CidrIp"):
        result["IpRanges"] = [{"CidrIp": rule["CidrIp"], **described}]
    elif rule.get("CidrIpv6"):
        result["Ipv6Ranges"] = [{"CidrIpv6": rule["CidrIpv6"], **described}]
    elif rule.get(peer_property):
        result["UserIdGroupPairs"] = [{"GroupId": rule[peer_property], **described}]
    elif rule.get(prefix_property):
        result["PrefixListIds"] = [{"PrefixListId": rule[prefix_property], **described}]
    else:
        raise ResourceError(
            f"a security group rule needs CidrIp, CidrIpv6, {peer_property} or {prefix_property}"
        )
    return result


def inbound(rule: Mapping[str, Any]) -> dict[str, Any]:
    return ip_permission(rule, "SourceSecurityGroupId", "SourcePrefixListId")


def outbound(rule: Mapping[str, Any]) -> dict[str, Any]:
    return ip_permission(rule, "DestinationSecurityGroupId", "DestinationPrefixListId")


class SecurityGroup(ResourceType):
    type_name = "AWS::EC2::SecurityGroup"
    properties = names(
        "GroupName GroupDescription VpcId SecurityGroupIngress SecurityGroupEgress Tags"
    )
    replaced_by = names("GroupName GroupDescription VpcId")

    def create(self, request: Request) -> Created:
        ec2 = request.client("ec2")
        name = request.name("GroupName", 255)
        response = ec2.create_security_group(
            GroupName=name, Description=request["GroupDescription"], **request.only("VpcId")
        )
        group_id = response["GroupId"]
        with undo_on_failure(lambda: ec2.delete_security_group(GroupId=group_id)):
            if request.get("SecurityGroupEgress"):
                ec2.revoke_security_group_egress(GroupId=group_id, IpPermissions=[ALL_TRAFFIC])
            self._change(request, group_id)
        tag(request, group_id)
        return Created(
            group_id, {"GroupId": group_id, "Id": group_id, "VpcId": request.get("VpcId", "")}
        )

    def update(self, request: Request) -> Created:
        self._change(request, request.physical_id)
        tag(request, request.physical_id)
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        request.client("ec2").delete_security_group(GroupId=request.physical_id)

    def _change(self, request: Request, group_id: str) -> None:
        ec2 = request.client("ec2")
        directions = (
            (
                "SecurityGroupIngress",
                inbound,
                ec2.authorize_security_group_ingress,
                ec2.revoke_security_group_ingress,
            ),
            (
                "SecurityGroupEgress",
                outbound,
                ec2.authorize_security_group_egress,
                ec2.revoke_security_group_egress,
            ),
        )
        for name, convert, authorize, revoke in directions:
            new_rules, old_rules = (
                [convert(rule) for rule in request.get(name, [])],
                [convert(rule) for rule in request.old.get(name, [])],
            )
            for rule in old_rules:
                if rule not in new_rules:
                    revoke(GroupId=group_id, IpPermissions=[rule])
            for rule in new_rules:
                if rule not in old_rules:
                    authorize(GroupId=group_id, IpPermissions=[rule])


class Rule(ResourceType):
    """One rule of a group as a resource.

    An update deletes the old rule first: a group cannot have two that are equal.
    """

    direction: ClassVar[str]

    def create(self, request: Request) -> Created:
        ec2 = request.client("ec2")
        rule = self._permission(request.properties)
        authorize = getattr(ec2, f"authorize_security_group_{self.direction}")
        rules = authorize(GroupId=request["GroupId"], IpPermissions=[rule]).get(
            "SecurityGroupRules", []
        )
        rule_id = rules[0]["SecurityGroupRuleId"] if rules else request.generated_name()
        return Created(rule_id, {"Id": rule_id})

    def delete(self, request: Request) -> None:
        revoke = getattr(request.client("ec2"), f"revoke_security_group_{self.direction}")
        revoke(GroupId=request["GroupId"], IpPermissions=[self._permission(request.properties)])

    def update(self, request: Request) -> Created:
        ignore_missing(lambda: self.delete(replace(request, properties=request.old)))
        return self.create(request)

    def _permission(self, rule: Mapping[str, Any]) -> dict[str, Any]:
        return inbound(rule) if self.direction == "ingress" else outbound(rule)


class Ingress(Rule):
    type_name = "AWS::EC2::SecurityGroupIngress"
    direction = "ingress"
    properties = names(
        f"GroupId {RULE} SourceSecurityGroupId SourcePrefixListId SourceSecurityGroupOwnerId"
    )


class Egress(Rule):
    type_name = "AWS::EC2::SecurityGroupEgress"
    direction = "egress"
    properties = names(f"GroupId {RULE} DestinationSecurityGroupId DestinationPrefixListId")


TYPES: tuple[ResourceType, ...] = (SecurityGroup(), Ingress(), Egress())
