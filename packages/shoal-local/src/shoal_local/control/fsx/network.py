"""Whether the security groups of a file system and its clients let Lustre's traffic through.

Source: FSx for Lustre user guide, "File system access control with Amazon VPC": TCP 988 and 1018 to
1023, in both directions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    ends = ((clients, "client"), (servers, "file system"))
    for (sender, from_), (receiver, to) in (ends, ends[::-1]):
        for first, last in PORTS:
            ports = str(first) if first == last else f"{first}-{last}"
            if not _any_opens(sender, "IpPermissionsEgress", (first, last), receiver):
                rule = f"no egress rule of the {from_}'s security groups lets TCP {ports} out"
                return f"{rule} to the {to}"
            if not _any_opens(receiver, "IpPermissions", (first, last), sender):
                rule = f"no ingress rule of the {to}'s security groups lets TCP {ports} in"
                return f"{rule} from the {from_}"
    return None


def _any_opens(
    groups: Sequence[Group], kind: str, ports: tuple[int, int], peers: Sequence[Group]
) -> bool:
    return any(_opens(rule, *ports, peers) for group in groups for rule in group[kind])


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
