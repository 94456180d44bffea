"""The regions that the project knows, their availability zone ids, and what they lack
(regions.yaml).
"""

from __future__ import annotations

from functools import cache
from typing import Any

from config.yaml_table import read_table


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = read_table(__file__, "regions.yaml")
    return table


@cache
def az_id_prefixes() -> dict[str, str]:
    """Return the prefix of each region's availability zone ids, as in `us-east-1: use1`."""
    return dict(_table()["az_id_prefixes"])


@cache
def resource_types_not_in(region: str) -> tuple[str, ...]:
    """Return the resource types of our stacks that CloudFormation does not have in `region`."""
    return tuple(
        name for name, regions in _table()["resource_types_not_in"].items() if region in regions
    )


def region_of_az_id(az_id: str) -> str | None:
    """Return the region in which `az_id` lies, or None when the table does not know its prefix."""
    prefix = az_id.split("-")[0]
    return next((region for region, known in az_id_prefixes().items() if known == prefix), None)
