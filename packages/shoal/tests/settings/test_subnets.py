"""Subnets do not overlap, and a larger training subnet does not move the others."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest

from shoal.settings.sections.network import divide, usable


@pytest.mark.parametrize(
    ("cidr", "hosting"), [("10.20.0.0/16", 2), ("10.20.0.0/16", 3), ("172.16.16.0/20", 3)]
)
@pytest.mark.parametrize("addresses", [10, 10_000_000])
def test_subnets_fit_into_the_vpc_without_overlap(cidr: str, hosting: int, addresses: int) -> None:
    divided = divide(cidr, hosting=hosting, training_addresses=addresses)
    subnets = [
        IPv4Network(subnet) for subnet in (divided.training, *divided.hosting, divided.public)
    ]
    assert all(subnet.subnet_of(IPv4Network(cidr)) for subnet in subnets)
    assert not any(a.overlaps(b) for a in subnets for b in subnets if a is not b)


def test_training_gets_a_quarter() -> None:
    divided = divide("10.20.0.0/16", hosting=2, training_addresses=100)
    assert (divided.training, divided.hosting) == (
        "10.20.0.0/18",
        ("10.20.64.0/20", "10.20.80.0/20"),
    )


def test_training_that_needs_more_gets_a_half_that_overlaps_nothing_of_before() -> None:
    small, large = (
        divide("10.20.0.0/20", hosting=2, training_addresses=addresses)
        for addresses in (1019, 1020)
    )
    assert (small.training, large.training) == ("10.20.0.0/22", "10.20.8.0/21")
    assert large.hosting == small.hosting


def test_aws_keeps_five_addresses_of_every_subnet() -> None:
    assert usable("10.20.0.0/24") == 251
