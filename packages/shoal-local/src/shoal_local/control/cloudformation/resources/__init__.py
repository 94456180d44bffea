"""The resource types that are emulated, by name."""

from pathlib import Path

from shoal_local.control.cloudformation.resources.awaited import Endpoint
from shoal_local.control.cloudformation.resources.base import ResourceType
from shoal_local.control.cloudformation.resources.converted import CONVERTED
from shoal_local.control.cloudformation.resources.plain import PlainType
from shoal_local.tables import read_table

TYPES: dict[str, ResourceType] = {
    Endpoint.type_name: Endpoint(),
    **{
        name: CONVERTED.get(name, PlainType)(name, row)
        for name, row in read_table(Path(__file__).with_name("types.yaml")).items()
    },
}
