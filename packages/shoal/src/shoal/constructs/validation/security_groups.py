"""Security groups: what a group allows itself it must allow both ways, and nothing may come in from
everywhere.

EFA's traffic needs both directions, and the CDK drops the egress rule where all outbound traffic is
allowed (SageMaker developer guide, "Give training jobs access to resources in your VPC";
github.com/aws/aws-ofi-nccl, issue 663).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from shoal.constructs.validation.findings import Finding, Template, resources

BOTH_WAYS = "SHOAL-SecurityGroupSelfRules"
NOT_FROM_EVERYWHERE = "SHOAL-SecurityGroupOpen"
ALL_TRAFFIC = ("-1", None, None)
_EVERYWHERE = {"0.0.0.0/0", "::/0"}
# Type of a rule by itself, the property of a group with rules in it, the property that names the
# other group.
_INGRESS = ("AWS::EC2::SecurityGroupIngress", "SecurityGroupIngress", "SourceSecurityGroupId")
_EGRESS = ("AWS::EC2::SecurityGroupEgress", "SecurityGroupEgress", "DestinationSecurityGroupId")

Ports = tuple[Any, Any, Any]
"""Protocol, first and last port; the ports are None for all traffic."""


def check(template: Template) -> Iterator[Finding]:
    """Yield every broken rule of the template's security groups."""
    inwards, outwards = self_rules(template, _INGRESS), self_rules(template, _EGRESS)
    for group in sorted({*inwards, *outwards}):
        for ports in sorted(inwards.get(group, set()) ^ outwards.get(group, set()), key=str):
            missing = "egress" if ports in inwards.get(group, set()) else "ingress"
            text = (
                f"the group allows itself {_ports_text(ports)} one way only; add the {missing} rule"
                " that names the group itself"
            )
            yield Finding(BOTH_WAYS, group, text)
    for logical_id, rule in _rules(template, _INGRESS):
        if _EVERYWHERE & {rule.get("CidrIp"), rule.get("CidrIpv6")}:
            yield Finding(
                NOT_FROM_EVERYWHERE,
                logical_id,
                "lets traffic in from every address; name a range or a group",
            )


def carries_efa(template: Template, group: str) -> bool:
    """Return whether the group (a logical id) allows itself all traffic, both ways."""
    return all(
        ALL_TRAFFIC in self_rules(template, kind).get(group, set()) for kind in (_INGRESS, _EGRESS)
    )


def self_rules(template: Template, kind: tuple[str, str, str]) -> dict[str, set[Ports]]:
    """Return what each group, by its logical id, allows itself in one direction."""
    rules: dict[str, set[Ports]] = {}
    for _, rule in _rules(template, kind):
        group = _group(rule.get("GroupId"))
        if group and group == _group(rule.get(kind[2])):
            rules.setdefault(group, set()).add(_ports(rule))
    return rules


def _rules(
    template: Template, kind: tuple[str, str, str]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every rule of one direction, with the logical id of its resource."""
    yield from resources(template, kind[0])
    for group, properties in resources(template, "AWS::EC2::SecurityGroup"):
        for rule in properties.get(kind[1], ()):
            yield group, {"GroupId": {"Ref": group}, **rule}


def _ports(rule: Mapping[str, Any]) -> Ports:
    protocol = str(rule["IpProtocol"])
    return ALL_TRAFFIC if protocol == "-1" else (protocol, rule.get("FromPort"), rule.get("ToPort"))


def _group(reference: Any) -> str | None:
    """Return the logical id of the group that `Ref` or `Fn::GetAtt` means; None for groups of other
    stacks.
    """
    if isinstance(reference, Mapping):
        target = reference.get("Ref") or reference.get("Fn::GetAtt")
        return str(target[0] if isinstance(target, list) else target) if target else None
    return None


def _ports_text(ports: Ports) -> str:
    if ports == ALL_TRAFFIC:
        return "all traffic"
    return f"{ports[0]} {json.dumps(ports[1])} to {json.dumps(ports[2])}"
