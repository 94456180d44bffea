"""Amazon EC2, the network: what is made is a resource of an unknown id (`subnet/*`), and what it is
made in is a resource too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from shoal_local.control.authorization.iam_request import ContextValue, Question
from shoal_local.control.authorization.rule_input import Asked, Rule, pass_role, same, table

FLOW_LOGS = "vpc-flow-logs.amazonaws.com"
DESCRIBE = (
    "AvailabilityZones DhcpOptions FlowLogs InstanceTypes InstanceTypeOfferings InternetGateways"
    " ManagedPrefixLists NatGateways NetworkAcls NetworkInterfaces PrefixLists RouteTables"
    " SecurityGroupRules SecurityGroups Subnets Tags VpcAttribute VpcEndpoints VpcEndpointServices"
    " Vpcs Addresses AccountAttributes"
)
KINDS = {
    "acl": "network-acl",
    "dopt": "dhcp-options",
    "eipalloc": "elastic-ip",
    "eni": "network-interface",
    "fl": "vpc-flow-log",
    "igw": "internet-gateway",
    "nat": "natgateway",
    "rtb": "route-table",
    "sg": "security-group",
    "sgr": "security-group-rule",
    "subnet": "subnet",
    "vpc": "vpc",
    "vpce": "vpc-endpoint",
}
"""Kind of resource by the prefix of its id."""


def in_vpc(asked: Asked, id_: str) -> dict[str, ContextValue]:
    """`ec2:Vpc` of a subnet, group or route table that exists."""
    vpc = asked.known.vpc_of(id_)
    return {"ec2:Vpc": asked.arn("ec2", f"vpc/{vpc}")} if vpc else {}


def of_id(asked: Asked, id_: str, action: str) -> Question:
    """The question about a resource that exists."""
    arn = asked.arn("ec2", f"{KINDS.get(id_.rpartition('-')[0], id_.rpartition('-')[0])}/{id_}")
    return Question(action, arn, {**asked.tags_of(arn), **in_vpc(asked, id_)})


def _makes(new: str, *given: str) -> Rule:
    """Makes a `new` resource out of those that the parameters `given` name; its tags are a question
    of their own.
    """

    def rule(asked: Asked) -> Iterator[Question]:
        action = f"ec2:{asked.call.operation}"
        made = asked.arn("ec2", f"{new}/*")
        yield Question(action, made, asked.tagging())
        for id_ in _ids(asked, given):
            yield of_id(asked, id_, action)
        if asked.tagging():
            yield Question(
                "ec2:CreateTags",
                made,
                {**asked.tagging(), "ec2:CreateAction": asked.call.operation},
            )

    return rule


def _changes(*given: str) -> Rule:
    """Changes or deletes what the parameters `given` name."""

    def rule(asked: Asked) -> Iterator[Question]:
        for id_ in _ids(asked, given):
            question = of_id(asked, id_, f"ec2:{asked.call.operation}")
            yield Question(
                question.action, question.resource, {**question.context, **asked.tagging()}
            )

    return rule


def _ids(asked: Asked, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        value = asked.get(name)
        yield from [value] if isinstance(value, str) else value or []


def _flow_logs(asked: Asked) -> Iterator[Question]:
    yield from _makes("vpc-flow-log", "ResourceIds")(asked)
    yield from pass_role(asked.get("DeliverLogsPermissionArn"), FLOW_LOGS)


def _disassociate(asked: Asked) -> Iterator[Question]:
    """The association's id says nothing about the table and subnet that it joins."""
    for kind in ("route-table", "subnet"):
        yield Question("ec2:DisassociateRouteTable", asked.arn("ec2", f"{kind}/*"))


RULES: Mapping[str, Rule] = table(
    "ec2",
    {
        **{f"Describe{what}": "*" for what in DESCRIBE.split()},
        "CreateVpc": _makes("vpc"),
        "CreateSubnet": _makes("subnet", "VpcId"),
        "CreateSecurityGroup": _makes("security-group", "VpcId"),
        "CreateRouteTable": _makes("route-table", "VpcId"),
        "CreateInternetGateway": _makes("internet-gateway"),
        "CreateNatGateway": _makes("natgateway", "SubnetId", "AllocationId"),
        "AllocateAddress": _makes("elastic-ip"),
        "CreateVpcEndpoint": _makes(
            "vpc-endpoint", "VpcId", "RouteTableIds", "SubnetIds", "SecurityGroupIds"
        ),
        "CreateNetworkInterface": _makes("network-interface", "SubnetId", "Groups"),
        "CreateFlowLogs": _flow_logs,
        "DisassociateRouteTable": _disassociate,
        "CreateTags": _changes("Resources"),
        "DeleteTags": _changes("Resources"),
        "AssociateRouteTable": _changes("RouteTableId", "SubnetId"),
        **same("CreateRoute DeleteRoute ReplaceRoute DeleteRouteTable", _changes("RouteTableId")),
        **same("ModifyVpcAttribute DeleteVpc", _changes("VpcId")),
        **same("ModifySubnetAttribute DeleteSubnet", _changes("SubnetId")),
        **same(
            "AttachInternetGateway DetachInternetGateway", _changes("InternetGatewayId", "VpcId")
        ),
        "DeleteInternetGateway": _changes("InternetGatewayId"),
        "DeleteNatGateway": _changes("NatGatewayId"),
        "ReleaseAddress": _changes("AllocationId"),
        "DeleteFlowLogs": _changes("FlowLogIds"),
        "ModifyVpcEndpoint": _changes("VpcEndpointId"),
        "DeleteVpcEndpoints": _changes("VpcEndpointIds"),
        "DeleteNetworkInterface": _changes("NetworkInterfaceId"),
        **same(
            "AuthorizeSecurityGroupEgress AuthorizeSecurityGroupIngress DeleteSecurityGroup"
            " RevokeSecurityGroupEgress RevokeSecurityGroupIngress"
            " UpdateSecurityGroupRuleDescriptionsEgress UpdateSecurityGroupRuleDescriptionsIngress",
            _changes("GroupId"),
        ),
    },
)
