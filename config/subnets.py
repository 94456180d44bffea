"""How the address range of a VPC is cut into training, hosting and public subnets.

    first quarter | second quarter: hosting, at its end public | second half

Training gets the first quarter, or the second half when it needs more. So a larger training subnet
overlaps nothing that exists. CloudFormation makes the new subnet before it deletes the old one, and
can therefore replace it.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network

AWS_RESERVES = 5  # addresses of every subnet. Amazon VPC user guide, "Subnet CIDR blocks"
_SIXTEENTHS_BEFORE_HOSTING = 4
_PUBLIC_PREFIX = 28  # the smallest there is; a NAT gateway takes one address


@dataclass(frozen=True)
class Subnets:
    """Address ranges of one VPC's subnets."""

    training: str
    hosting: tuple[str, ...]
    public: str


def usable(cidr: str) -> int:
    """Return how many addresses of a subnet network interfaces can have."""
    return IPv4Network(cidr).num_addresses - AWS_RESERVES


def divide(cidr: str, *, hosting: int, training_addresses: int) -> Subnets:
    """Cut the range `cidr` into subnets.

    `hosting` is the number of subnets for endpoints. The training subnet has room for
    `training_addresses`, if there is any.
    """
    vpc = IPv4Network(cidr)
    sixteenths = list(vpc.subnets(prefixlen_diff=4))
    ranges = training_ranges(cidr)
    training = next((part for part in ranges if usable(part) >= training_addresses), ranges[-1])
    hosts = sixteenths[_SIXTEENTHS_BEFORE_HOSTING : _SIXTEENTHS_BEFORE_HOSTING + hosting]
    public = list(sixteenths[_SIXTEENTHS_BEFORE_HOSTING + 3].subnets(new_prefix=_PUBLIC_PREFIX))[-1]
    return Subnets(training, tuple(map(str, hosts)), str(public))


def training_ranges(cidr: str) -> tuple[str, str]:
    """Return the two ranges that the training subnet can have, the smaller one first."""
    quarter = next(IPv4Network(cidr).subnets(prefixlen_diff=2))
    half = list(IPv4Network(cidr).subnets(prefixlen_diff=1))[1]
    return str(quarter), str(half)
