"""Which regions the project knows, and the prefix of their availability zone ids; read from `regions.yaml`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml


@cache
def az_id_prefixes() -> dict[str, str]:
    """Region name to the prefix of its availability zone ids, as in `us-east-1: use1`."""
    table: dict[str, dict[str, str]] = yaml.safe_load(Path(__file__).with_name("regions.yaml").read_text(encoding="utf-8"))
    return table["az_id_prefixes"]


def region_of_az_id(az_id: str) -> str | None:
    """The region in which `az_id` lies, or None when the table does not know its prefix."""
    prefix = az_id.split("-")[0]
    return next((region for region, known in az_id_prefixes().items() if known == prefix), None)
