"""Refuse parameters that moto keeps and Systems Manager does not (API reference, PutParameter)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from moto.backends import get_backend

from shoal_local.control.protocol import ApiCall
from shoal_local.errors import AwsError

MAX_STANDARD, MAX_ADVANCED = 4096, 8192


def check_value(call: ApiCall) -> None:
    """Refuse a value that is too long for its tier, or that its pattern does not allow."""
    request, value = call.parameters, call.parameters["Value"]
    tier = request.get("Tier") or "Standard"
    if len(value) > (MAX_STANDARD if tier == "Standard" else MAX_ADVANCED):
        raise AwsError(
            "ValidationException",
            f"{tier} tier parameters support a maximum parameter value of"
            f" {MAX_STANDARD if tier == 'Standard' else MAX_ADVANCED} characters.",
        )
    pattern = request.get("AllowedPattern") or _pattern_before(call)
    try:
        allowed = not pattern or re.search(pattern, value)
    except re.error as error:
        raise AwsError(
            "InvalidAllowedPatternException",
            f"The pattern {pattern} is no regular expression: {error}",
        ) from error
    if not allowed:
        raise AwsError(
            "ParameterPatternMismatchException",
            f"Parameter value, cannot be validated against allowedPattern: {pattern}",
        )


def _pattern_before(call: ApiCall) -> str:
    """Return the pattern of the parameter's last version; "" without one."""
    name = call.parameters["Name"]
    versions = get_backend("ssm")[call.account][call.region]._parameters.get(name) or []
    return (versions[-1].allowed_pattern if versions else None) or ""


GUARDS: Mapping[str, Callable[[ApiCall], None]] = {"PutParameter": check_value}
