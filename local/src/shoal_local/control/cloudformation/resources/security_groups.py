"""AWS::EC2 security groups and their rules, inline and as resources of their own (a group that
names itself needs those).
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
    gone_is_fine,
    names,
    undone_on_failure,
)
from shoal_local.control.cloudformation.resources.ec2 import tag

PORTS = ("FromPort", "ToPort")
ALL_TRAFFIC = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
RULE = "IpProtocol FromPort ToPort Description CidrIp CidrIpv6"


def permission(rule: Mapping[str, Any], peer_property: str, prefix_property: str) -> dict[str, Any]:
    """A rule in CloudFormation's words as an IpPermission."""
    described = {"Description": rule["Description"]} if rule.get("Description") else {}
    made: dict[str, Any] = {
        "IpProtocol": str(rule["IpProtocol"]),
        **{name: int(rule[name]) for name in PORTS if name in rule},
    }
    if rule.get("CidrIp"):
        made["IpRanges"] = [{"CidrIp": rule["CidrIp"], **described}]
    elif rule.get("CidrIpv6"):
        made["Ipv6Ranges"] = [{"CidrIpv6": rule["CidrIpv6"], **described}]
    elif rule.get(peer_property):
        made["UserIdGroupPairs"] = [{"GroupId": rule[peer_property], **described}]
    elif rule.get(prefix_property):
        made["PrefixListIds"] = [{"PrefixListId": rule[prefix_property], **described}]
    else:
        raise ResourceError(
            f"a security group rule needs CidrIp, CidrIpv6, {peer_property} or {prefix_property}"
        )
    return made


def inbound(rule: Mapping[str, Any]) -> dict[str, Any]:
    return permission(rule, "SourceSecurityGroupId", "SourcePrefixListId")


def outbound(rule: Mapping[str, Any]) -> dict[str, Any]:
    return permission(rule, "DestinationSecurityGroupId", "DestinationPrefixListId")


class SecurityGroup(ResourceType):
    type_name = "AWS::EC2::SecurityGroup"
    properties = names(
        "GroupName GroupDescription VpcId SecurityGroupIngress SecurityGroupEgress Tags"
    )
    replaced_by = names("GroupName GroupDescription VpcId")

    def create(self, request: Request) -> Created:
        ec2 = request.client("ec2")
        name = request.name("GroupName", 255)
        made = ec2.create_security_group(
            GroupName=name, Description=request["GroupDescription"], **request.only("VpcId")
        )
        group_id = made["GroupId"]
        with undone_on_failure(lambda: ec2.delete_security_group(GroupId=group_id)):
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
        gone_is_fine(
            lambda: request.client("ec2").delete_security_group(GroupId=request.physical_id)
        )

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
        for name, words, authorize, revoke in directions:
            now, before = (
                [words(rule) for rule in request.get(name, [])],
                [words(rule) for rule in request.old.get(name, [])],
            )
            for rule in before:
                if rule not in now:
                    revoke(GroupId=group_id, IpPermissions=[rule])
            for rule in now:
                if rule not in before:
                    authorize(GroupId=group_id, IpPermissions=[rule])


class Rule(ResourceType):
    """One rule of a group as a resource.

    A change takes the old rule away first: a group cannot have two that are equal.
    """

    direction: ClassVar[str]

    def create(self, request: Request) -> Created:
        ec2 = request.client("ec2")
        rule = self._permission(request.properties)
        authorize = getattr(ec2, f"authorize_security_group_{self.direction}")
        made = authorize(GroupId=request["GroupId"], IpPermissions=[rule]).get(
            "SecurityGroupRules", []
        )
        rule_id = made[0]["SecurityGroupRuleId"] if made else request.generated_name()
        return Created(rule_id, {"Id": rule_id})

    def delete(self, request: Request) -> None:
        revoke = getattr(request.client("ec2"), f"revoke_security_group_{self.direction}")
        gone_is_fine(
            lambda: revoke(
                GroupId=request["GroupId"], IpPermissions=[self._permission(request.properties)]
            )
        )

    def update(self, request: Request) -> Created:
        self.delete(replace(request, properties=request.old))
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
