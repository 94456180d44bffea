"""The instance types that smddp supports."""

from __future__ import annotations

import warnings

from .exceptions import SMDDPConfigurationError
from .launch import LaunchEnvironment

# Source: "Supported frameworks, AWS Regions, and instance types" in the SageMaker developer guide,
# SMDDP chapter.
SUPPORTED_INSTANCE_TYPES = ("ml.p4d.24xlarge", "ml.p4de.24xlarge", "ml.p3dn.24xlarge")


def check_instance_type(environment: LaunchEnvironment) -> None:
    """Say so if smddp does not support this job's instance type.

    That is an error in strict mode, else a warning.
    """
    instance_type = environment.instance_type
    if not instance_type or instance_type in SUPPORTED_INSTANCE_TYPES:
        return
    message = (
        f"smddp cannot run on {instance_type}; it supports {', '.join(SUPPORTED_INSTANCE_TYPES)}"
    )
    if environment.strict:
        raise SMDDPConfigurationError(message)
    warnings.warn(f"{message} (allowed here because SMDDP_LOCAL_STRICT is not 1)", stacklevel=2)
