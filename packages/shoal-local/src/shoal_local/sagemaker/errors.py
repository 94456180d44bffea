"""The errors that SageMaker answers, worded as in its API reference and in users' reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from shoal_local.errors import AwsError
from shoal_local.tables import read_table

_REFUSED: Mapping[str, Sequence[str]] = read_table(Path(__file__).with_name("refused.yaml"))
NO_NETWORK_ISOLATION = (
    "EnableNetworkIsolation (a container always reaches the AWS endpoint, and nothing else)"
)


invalid = partial(AwsError, "ValidationException")
"""The error for a request that SageMaker refuses."""
not_found = partial(AwsError, "ResourceNotFound")
"""The error of operations whose documentation lists ResourceNotFound (pipelines, executions)."""
conflict = partial(AwsError, "ConflictException")
"""The error for a request that the state of a resource excludes."""


def unparsable(message: str) -> AwsError:
    """Return the error for a pipeline definition that is not well formed."""
    return invalid(f"Unable to parse pipeline definition. {message}")


def not_emulated(what: str) -> AwsError:
    """Return the error for something that AWS has and this emulator has not.

    It names what is missing, and is raised before anything starts. Its code is that of the other
    services here, because SageMaker answers ValidationException for a resource that is not there.
    """
    return AwsError(
        "UnknownOperationException",
        f"The Shoal emulator does not emulate {what}. Nothing was started.",
    )


def refuse_fields(operation: str, request: Mapping[str, Any]) -> None:
    """Raise `not_emulated` for the first field of `refused.yaml` that a request sets."""
    for path in _REFUSED[operation]:
        if _is_set(request, path.split(".")):
            raise not_emulated(f"{operation}.{path}")


def _is_set(value: Any, keys: Sequence[str]) -> bool:
    if isinstance(value, list):
        return any(_is_set(each, keys) for each in value)
    if not keys:
        return bool(value)
    return isinstance(value, Mapping) and _is_set(value.get(keys[0]), keys[1:])
