"""The resource types that are emulated, by name."""

from __future__ import annotations

from shoal_local.control.cloudformation.resources import (
    alerting,
    autoscaling,
    building,
    computing,
    ec2,
    filesystems,
    hosting,
    iam,
    keys,
    messaging,
    observing,
    s3,
    scheduling,
    security_groups,
)
from shoal_local.control.cloudformation.resources.base import ResourceType

MODULES = (
    iam,
    s3,
    ec2,
    security_groups,
    keys,
    messaging,
    observing,
    computing,
    building,
    filesystems,
    alerting,
    scheduling,
    hosting,
    autoscaling,
)
TYPES: dict[str, ResourceType] = {
    kind.type_name: kind for module in MODULES for kind in module.TYPES
}
