"""The resource types that are emulated, by name."""

from __future__ import annotations

from pathlib import Path

from shoal_local.control.cloudformation.resources import ec2, endpoint, events, iam
from shoal_local.control.cloudformation.resources.base import ResourceType
from shoal_local.control.cloudformation.resources.converted import CONVERTED
from shoal_local.control.cloudformation.resources.plain import EachType, PlainType
from shoal_local.tables import read_table


def _plain_types() -> dict[str, ResourceType]:
    types: dict[str, ResourceType] = {}
    for name, row in read_table(Path(__file__).with_name("types.yaml")).items():
        kind = EachType if "each" in row else CONVERTED.get(name, PlainType)
        types[name] = kind(name, row)
    return types


SPECIAL = (*iam.TYPES, *ec2.TYPES, *events.TYPES, *endpoint.TYPES)
TYPES: dict[str, ResourceType] = {**_plain_types(), **{each.type_name: each for each in SPECIAL}}
