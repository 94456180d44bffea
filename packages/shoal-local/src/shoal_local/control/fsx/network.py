"""Whether the security groups of a file system and its clients let Lustre's traffic through.

Source: FSx for Lustre user guide, "File system access control with Amazon VPC": TCP 988 and 1018 to
1023, in both directions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

PORTS = ((988, 988), (1018, 1023))
_ALL = "-1"
_TCP = ("tcp", "6")
Group = Mapping[str, Any]
"""A security group as DescribeSecurityGroups answers it."""


def closed_between(clients: Sequence[Group], servers: Sequence[Group]) -> str | None:
    """Return the first direction and port that no rule opens; None when everything that Lustre
    needs is open.
    """
    for sender, receiver, names in (
        (clients, servers, ("client", "file system")),
        (servers, clients, ("file system", "client")),
    ):
        for first, last in PORTS:
            ports = str(first) if first == last else f"{first}-{last}"
            if not any(
                _opens(rule, first, last, receiver)
                for rule in _rules(sender, "IpPermissionsEgress")
            ):
                return (
                    f"no egress rule of the {names[0]}'s security groups lets TCP {ports} out to"
                    f" the {names[1]}"
                )
            if not any(
                _opens(rule, first, last, sender) for rule in _rules(receiver, "IpPermissions")
            ):
                return (
                    f"no ingress rule of the {names[1]}'s security groups lets TCP {ports} in from"
                    f" the {names[0]}"
                )
    return None


def _rules(groups: Sequence[Group], kind: str) -> Iterator[Mapping[str, Any]]:
    return (rule for group in groups for rule in group[kind])


def _opens(rule: Mapping[str, Any], first: int, last: int, peers: Sequence[Group]) -> bool:
    """Return whether the rule is for these ports and one of the peers.

    A range of addresses counts as one that contains the peers.
    """
    protocol = str(rule["IpProtocol"])
    if protocol != _ALL and (
        protocol not in _TCP or not rule["FromPort"] <= first <= last <= rule["ToPort"]
    ):
        return False
    group_ids = {pair["GroupId"] for pair in rule.get("UserIdGroupPairs", [])}
    return bool(
        group_ids & {peer["GroupId"] for peer in peers}
        or rule.get("IpRanges")
        or rule.get("PrefixListIds")
    )
