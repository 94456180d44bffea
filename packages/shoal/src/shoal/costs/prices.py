"""List prices by thing and region, each with source and date (prices.yaml); None where there is
none.
"""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
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

    def times(self, quantity: float) -> "Price":
        return Price(self.usd_per_hour * quantity, self.source, self.date, self.is_estimate)


_TABLE: dict[str, Any] = read_table(__file__, "prices.yaml")


def _find(section: str, name: str, region: str) -> Price | None:
    for group in _TABLE[section]:
        listed, estimated = region in group.get("listed", ()), region in group.get("estimated", ())
        if name in group["usd"] and (listed or estimated):
            return Price(group["usd"][name], group["source"], group["date"], is_estimate=not listed)
    return None


def instances(region: str) -> Iterator[tuple[str, Price]]:
    """Yield the name and the price of each SageMaker instance type that has one there."""
    for name in sorted({name for group in _TABLE["instances"] for name in group["usd"]}):
        if price := instance(name, region):
            yield name, price


def _by_month(section: str, name: str, region: str) -> Price | None:
    price = _find(section, name, region)
    return price.times(1 / HOURS_A_MONTH) if price else None


def instance(instance_type: str, region: str) -> Price | None:
    """Return the price of one SageMaker instance, for any use."""
    return _find("instances", instance_type, region)


def file_system(settings: FileSystem, region: str) -> Price | None:
    """Return the price of an FSx for Lustre file system of this kind and size."""
    throughput = settings.throughput_mbps_per_tib
    name = f"{settings.deployment_type}-{throughput}" if throughput else settings.deployment_type
    price = _by_month("file_systems", name, region)
    return price.times(settings.storage_capacity_gib) if price else None


def hourly(name: str, region: str) -> Price | None:
    """Return the price of an `interface_endpoint` in one availability zone or of a `nat_gateway`,
    without their data, or of a NAT gateway's `public_ipv4_address`.
    """
    return _find("hourly", name, region)


def usd_per_gb(name: str, region: str) -> float | None:
    """Return the price of each GB through an `interface_endpoint` or a `nat_gateway`.

    For all regions in the table it is an estimate.
    """
    price = _find("per_gb", name, region)
    return price.usd_per_hour if price else None


def kms_key(region: str) -> Price | None:
    """Return the price of a customer-managed key."""
    return _by_month("monthly", "kms_key", region)
