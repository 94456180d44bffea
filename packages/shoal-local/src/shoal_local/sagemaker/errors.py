"""The errors that SageMaker answers, worded as in its API reference and in users' reports."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from shoal_local.errors import AwsError
from shoal_local.sagemaker.shapes import Anything
from shoal_local.tables import read_table

_FIELDS: Mapping[str, Sequence[str]] = read_table(Path(__file__).with_name("resources.yaml"))[
    "fields"
]
_ROW = re.compile(r"([\w.]+)(!)?(?:=(.*))?")


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


def check_fields(operation: str, request: Mapping[str, Any]) -> None:
    """Raise AwsError for the first field that breaks a row of `fields`, unless it is unknown."""
    for row in _FIELDS.get(operation, ()):
        path, required, allowed = _ROW.fullmatch(row).groups()  # type: ignore[union-attr]
        for value in _values(request, path.split(".")):
            if required and value is None:
                raise invalid(f"{path} is required")
            if required or value is None or isinstance(value, Anything):
                continue
            if allowed is None and value:
                raise not_emulated(f"{operation}.{path}")
            if allowed is not None and str(value) not in allowed.split("|"):
                choices = allowed.replace("|", ", ")
                raise not_emulated(f"{operation}.{path} {value}; it has {choices}")


def _values(value: Any, keys: Sequence[str]) -> Iterator[Any]:
    """Yield the values of a field, of each member of a list; None where it is not set."""
    if isinstance(value, list):
        for each in value:
            yield from _values(each, keys)
    elif not keys:
        yield value
    elif isinstance(value, Mapping) and (len(keys) == 1 or keys[0] in value):
        yield from _values(value.get(keys[0]), keys[1:])
