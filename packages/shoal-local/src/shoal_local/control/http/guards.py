"""Guards: checks of a request before its service answers it. Each raises AwsError to refuse it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shoal_local.control.http.protocol import ApiCall
from shoal_local.errors import AwsError

Guard = Callable[[ApiCall], None]
Guards = Mapping[str, Mapping[str, tuple[Guard, ...]]]
"""By service and operation; `*` is every operation."""


@dataclass(frozen=True)
class Refusal:
    """Refuses every request for the same reason."""

    reason: str

    def __call__(self, _call: ApiCall) -> None:
        raise AwsError("UnknownOperationException", self.reason)


@dataclass(frozen=True)
class OnlyThese:
    """Refuses the operations of a service that are not among these."""

    operations: frozenset[str]

    def __call__(self, call: ApiCall) -> None:
        if call.operation not in self.operations:
            refuse(f"does not emulate {call.service} {call.operation}")(call)


def refuse(what: str) -> Refusal:
    """Return a guard that refuses every request."""
    return Refusal(f"Shoal's emulator {what}")


def merged(*tables: Mapping[str, Mapping[str, Guard]]) -> Guards:
    """Return the guards of all tables, those of the first table first."""
    guards: dict[str, dict[str, tuple[Guard, ...]]] = {}
    for table in tables:
        for service, rows in table.items():
            operations = guards.setdefault(service, {})
            for operation, guard in rows.items():
                operations[operation] = (*operations.get(operation, ()), guard)
    return guards


def refuses(guard: Guard, operation: str) -> bool:
    """Return whether no request of the operation passes the guard, whatever it contains."""
    if isinstance(guard, OnlyThese):
        return operation not in guard.operations
    return isinstance(guard, Refusal)
