"""The rules of the section `network`."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterator, Sequence

from config.errors import Problem
from config.regions import az_id_prefixes, region_of_az_id
from config.settings import Environment

# RFC 1918
_PRIVATE = tuple(map(ipaddress.IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
_SUBNETS = "network.existing.hosting_subnet_ids"


def _zones(environment: Environment) -> Iterator[Problem]:
    prefix = az_id_prefixes().get(environment.region)
    network = environment.network
    hosting = enumerate(network.hosting_az_ids)
    zones = {"network.training_az_id": network.training_az_id} | {
        f"network.hosting_az_ids[{index}]": zone for index, zone in hosting
    }
    for key, zone in zones.items():
        if prefix and zone.split("-")[0] != prefix:
            place = region_of_az_id(zone) or "no region this project knows"
            message = f"lies in {place}, not in {environment.region}"
            yield Problem(
                key, message, f"use an id that starts with {prefix}-az", zone, ("region",)
            )
    for zone, count in _repeated(network.hosting_az_ids):
        message = f"names {zone} {count} times; the zones must differ"
        yield Problem(
            "network.hosting_az_ids",
            message,
            "name two or three different zones",
            list(network.hosting_az_ids),
        )


def _addresses(environment: Environment) -> Iterator[Problem]:
    cidr = environment.network.cidr
    try:
        network = ipaddress.IPv4Network(cidr)
    except ValueError as error:
        yield Problem(
            "network.cidr", f"is not an address range: {error}", "write it as in 10.20.0.0/16", cidr
        )
        return
    if not any(network.subnet_of(private) for private in _PRIVATE):
        yield Problem(
            "network.cidr",
            "is not a private range",
            "use one inside 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16",
            cidr,
        )


def _endpoints(environment: Environment) -> Iterator[Problem]:
    key, services = "network.interface_endpoints", environment.network.interface_endpoints
    for service, count in _repeated(services):
        yield Problem(
            key, f"names {service} {count} times", "name each service once", list(services)
        )


def _existing(environment: Environment) -> Iterator[Problem]:
    """Check an existing VPC as far as it goes without AWS; `shoal.verbs.network_check` asks AWS."""
    network = environment.network
    existing = network.existing
    if existing is None:
        return
    created: dict[str, object] = {
        "cidr": network.cidr,
        "interface_endpoints": list(network.interface_endpoints),
        "nat": network.nat,
    }
    for name in sorted(created.keys() & network.model_fields_set):
        advice = "remove it; what an existing VPC has belongs to its owner"
        yield Problem(
            f"network.{name}",
            "is only read for a VPC that is made",
            advice,
            created[name],
            ("network.existing",),
        )
    subnets, zones = existing.hosting_subnet_ids, network.hosting_az_ids
    for subnet, count in _repeated(subnets):
        yield Problem(
            _SUBNETS,
            f"names {subnet} {count} times; the subnets must differ",
            "name each subnet once",
            list(subnets),
        )
    if len(subnets) != len(zones):
        message = f"has {len(subnets)} entries, and network.hosting_az_ids has {len(zones)}"
        yield Problem(
            _SUBNETS,
            message,
            "give one subnet for each zone, in the same order",
            list(subnets),
            ("network.hosting_az_ids",),
        )
        return
    for subnet, zone in zip(subnets, zones, strict=True):
        if subnet == existing.training_subnet_id and zone != network.training_az_id:
            message = (
                f"puts the training subnet into {zone}, and network.training_az_id into"
                f" {network.training_az_id}"
            )
            advice = "give the zone in which the subnet lies"
            yield Problem(
                _SUBNETS,
                message,
                advice,
                subnet,
                ("network.hosting_az_ids", "network.training_az_id"),
            )


def _repeated(values: Sequence[str]) -> Iterator[tuple[str, int]]:
    return ((value, count) for value, count in Counter(values).items() if count > 1)


RULES = (_zones, _addresses, _endpoints, _existing)
