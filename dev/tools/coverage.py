"""What shoal-local does with each operation of the services that it emulates, asked of its tables
and of moto's.

    .venv/bin/python -m dev.tools.coverage

prints the tables that `make docs` puts into the page of operations.
"""

import importlib
import inspect
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
from botocore import xform_name

from shoal_local.control.authorization.rules import rules_of
from shoal_local.control.http.guards import Refusal
from shoal_local.control.service_router import MOTO_SERVICES, Service
from shoal_local.sagemaker.service import RUNTIME_OPERATIONS
from shoal_local.server import Emulator
from shoal_local.testing import in_process

RUNS, KEPT, REFUSED = "runs", "kept", "refused"
_BASE = "moto.core.responses"


@dataclass(frozen=True)
class Coverage:
    """What a service's operations come to, by operation: `runs`, `kept` or `refused`."""

    service: str
    title: str
    effects: Mapping[str, str]

    def those(self, effect: str) -> list[str]:
        """Return the operations with this effect."""
        return sorted(name for name, each in self.effects.items() if each == effect)


def tables() -> str:
    """Return counts by service, then the operations of each service by effect, as Markdown."""
    with tempfile.TemporaryDirectory() as folder, in_process(Path(folder) / "state") as emulator:
        services = list(coverage(emulator))
    table = ["| service | runs | kept | refused |", "| --- | ---: | ---: | ---: |"]
    lists: list[str] = []
    for each in services:
        names = {effect: each.those(effect) for effect in (RUNS, KEPT, REFUSED)}
        table.append(f"| {each.title} | {' | '.join(f'{len(n):,}' for n in names.values())} |")
        lists += ["", f"## {each.title}"]
        for effect, operations in names.items():
            if operations:
                lists += ["", f"**{effect}**: {', '.join(f'`{name}`' for name in operations)}"]
    return "\n".join([*table, *lists])


def coverage(emulator: Emulator) -> Iterator[Coverage]:
    """Yield the services of an emulator by name."""
    account = emulator.home
    own, session = account.router.services, botocore.session.get_session()
    complete = {
        "sagemaker": account.sagemaker.operations,
        "sagemaker-runtime": RUNTIME_OPERATIONS.values(),
    }
    for name in sorted({*own, *MOTO_SERVICES, *complete}):
        service = session.get_service_model(name)
        title = service.metadata.get("serviceAbbreviation") or service.metadata["serviceFullName"]
        effects = {
            each: (RUNS if each in complete[name] else REFUSED)
            if name in complete
            else _effect(name, each, own.get(name, Service({})))
            for each in service.operation_names
        }
        yield Coverage(name, str(title), effects)


def _effect(name: str, operation: str, service: Service) -> str:
    guards = (guard for key in ("*", operation) for guard in service.guards.get(key, ()))
    if any(isinstance(guard, Refusal) for guard in guards):
        return REFUSED
    if operation in service.operations:
        return KEPT if service.keeps else RUNS
    return KEPT if not service.complete and moto_has(name, operation) else REFUSED


def moto_has(service: str, operation: str) -> bool:
    """Return whether moto answers an operation with something other than NotImplementedError."""
    from moto.core.utils import camelcase_to_underscores

    names = (camelcase_to_underscores(operation), xform_name(operation))
    methods = [
        method
        for name in names
        if (method := getattr(_responses(service), name, None)) and method.__module__ != _BASE
    ]
    if service == "s3":
        # moto finds its methods by the URL, so a guard lets those with rules pass, in their URL's
        # older name, too (GetBucketLifecycle)
        return not {operation, f"{operation}Configuration"}.isdisjoint(rules_of(service))
    return any(not _lacks_body(method) for method in methods)


@cache
def _responses(service: str) -> type:
    """Return the class whose methods are the operations that moto has of a service."""
    urls = importlib.import_module(f"moto.{service}.urls")
    handler: Any = next(iter(urls.url_paths.values()))
    return handler.__self__ if inspect.isclass(handler.__self__) else type(handler.__self__)


def _lacks_body(method: Callable[..., Any]) -> bool:
    code = inspect.unwrap(method).__code__
    return "NotImplementedError" in code.co_names and "return" not in inspect.getsource(method)


if __name__ == "__main__":
    print(tables())
