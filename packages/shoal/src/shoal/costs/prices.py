"""List prices by thing and region, each with source and date (prices.yaml).

An `interface_endpoint` is priced by availability zone; its data, and a NAT gateway's, by GB.
"""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from shoal.settings.parsing.yaml_file import read_table
from shoal.settings.sections.file_system import FileSystem

HOURS_A_MONTH = 730


@dataclass(frozen=True)
class Price:
    """US dollars for one hour."""

    usd_per_hour: float
    source: str
    date: datetime.date
    is_estimate: bool
    """Whether the number is not from the price list of this region."""


_TABLE: dict[str, Any] = read_table(__file__, "prices.yaml")
_BY_MONTH = ("file_systems", "monthly")


def find(section: str, name: str, region: str) -> Price | None:
    """Return the price of one thing in a section of prices.yaml; None where there is none."""
    hours = HOURS_A_MONTH if section in _BY_MONTH else 1
    for group in _TABLE[section]:
        listed, estimated = region in group.get("listed", ()), region in group.get("estimated", ())
        if name in group["usd"] and (listed or estimated):
            usd = group["usd"][name] / hours
            return Price(usd, group["source"], group["date"], is_estimate=not listed)
    return None


def instances(region: str) -> Iterator[tuple[str, Price]]:
    """Yield the name and the price of each SageMaker instance type that has one there."""
    for name in sorted({name for group in _TABLE["instances"] for name in group["usd"]}):
        if price := instance(name, region):
            yield name, price


def instance(instance_type: str, region: str) -> Price | None:
    """Return the price of one SageMaker instance, for any use."""
    return find("instances", instance_type, region)


def file_system(settings: FileSystem, region: str) -> Price | None:
    """Return the price of an FSx for Lustre file system of this kind and size."""
    throughput = settings.throughput_mbps_per_tib
    name = f"{settings.deployment_type}-{throughput}" if throughput else settings.deployment_type
    if (price := find("file_systems", name, region)) is None:
        return None
    return replace(price, usd_per_hour=price.usd_per_hour * settings.storage_capacity_gib)


def usd_per_gb(name: str, region: str) -> float | None:
    """Return the price of a GB through an `interface_endpoint` or a `nat_gateway`, an estimate."""
    price = find("per_gb", name, region)
    return price.usd_per_hour if price else None
