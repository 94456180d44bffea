"""Writes local/docs/coverage.md: what shoal-local does with each operation of the services that it
emulates, and which tests call it.

What it does is asked of an emulator's tables and of moto's. The tests are found in their sources.

.venv/bin/python -m dev.tools.coverage
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
from botocore import xform_name

from shoal_local.control.authorization.rules import rules_of
from shoal_local.control.guards import refuses
from shoal_local.control.sagemaker import RUNTIME_OPERATIONS
from shoal_local.control.service_router import MOTO_SERVICES, Service
from shoal_local.server import Emulator
from shoal_local.testing import in_process

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "local" / "docs" / "coverage.md"
TEST_FOLDERS = ("local/tests", "tests")
MAX_FILES = 3
_ASSIGNMENT = re.compile(r"(\w+) = [\w.()]*client\(\s*\"([\w-]+)\"")
_CALL = re.compile(r"\.(\w+)\((?:\"(\w+)\")?")
_RECEIVER = re.compile(r"[\w.()\[\]\"'-]*\s*$")
_MAX_RECEIVER = 80
_IMPORT = re.compile(r"^\W*import (?:\w+ as )?(\w+)", re.MULTILINE)
Operation = tuple[str, str]
"""A service and an operation, as botocore calls them."""
RUNS, KEPT, REFUSED = "runs", "kept", "refused"
_INTRODUCTION = f"""\
# What shoal-local does with each operation

<!-- Written by `make reference`: change the program instead of this page. -->

- **runs**: shoal-local's own code does it. A job, a function or a deployment really runs.
- **kept**: moto, or a store of shoal-local, keeps what it is told and answers with it. What follows
  on AWS does not follow here, unless the section says so.
- **refused**: an error names the operation, and nothing is kept.

An operation that runs or is kept may still refuse a member of its request, by name. Services that
are not here are refused. IAM: `asked` where shoal-local knows what AWS asks IAM; with
`--enforce-iam`, only the account's root may call the others.

The words come from the tables by which shoal-local routes requests, from its guards, and from the
methods that moto has. A nightly test sends the smallest request of every operation to an emulator:
none that is refused may succeed, and none that runs may be refused as an operation.

The tests come from a search of their sources for calls of boto3 clients. A file that is named calls
the operation, directly or by a function of a module next to it; at most {MAX_FILES} are named. What
tests reach by `cdk`, `aws`, an SDK, CloudFormation or the product is not counted. Where no test is
named, none calls it by boto3.
"""


@dataclass(frozen=True)
class Coverage:
    """What a service's operations come to, by operation: `runs`, `kept` or `refused`."""

    service: str
    title: str
    about: str
    effects: Mapping[str, str]

    def those(self, effect: str) -> list[str]:
        """Return the operations with this effect."""
        return sorted(name for name, each in self.effects.items() if each == effect)


def main() -> None:
    """Write the page."""
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the page's text."""
    with tempfile.TemporaryDirectory() as folder, in_process(Path(folder) / "state") as emulator:
        services = list(coverage(emulator))
    tests = calling_tests(services)
    return "\n".join(
        [*_head(services), *(line for each in services for line in _section(each, tests))]
    )


def coverage(emulator: Emulator) -> Iterator[Coverage]:
    """Yield the services of an emulator by name."""
    account = emulator.home
    own = account.router.services
    sagemaker = account.sagemaker
    yield from sorted(
        [
            *(_of_service(name, own.get(name, Service({}))) for name in own.keys() | MOTO_SERVICES),
            _complete("sagemaker", sagemaker.operations, sagemaker),
            _complete("sagemaker-runtime", RUNTIME_OPERATIONS.values(), sagemaker),
        ],
        key=lambda each: each.service,
    )


def _complete(name: str, operations: Any, handler: object) -> Coverage:
    effects = {each: RUNS if each in operations else REFUSED for each in _operations(name)}
    return Coverage(name, _title(name), _about(type(handler)), effects)


def _of_service(name: str, service: Service) -> Coverage:
    effects = {each: _effect(name, each, service) for each in _operations(name)}
    modules = sorted({_about(handler) for handler in service.operations.values()})
    return Coverage(name, _title(name), " ".join(modules), effects)


def _effect(name: str, operation: str, service: Service) -> str:
    guards = (service.guards[key] for key in ("*", operation) if key in service.guards)
    if any(refuses(guard, operation) for guard in guards):
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
        return True  # moto finds its methods by the URL, so a guard names the operations it has
    return any(not _lacks_body(method) for method in methods)


_BASE = "moto.core.responses"


@cache
def _responses(service: str) -> type:
    """Return the class whose methods are the operations that moto has of a service."""
    urls = importlib.import_module(f"moto.{service}.urls")
    handler: Any = next(iter(urls.url_paths.values()))
    return handler.__self__ if inspect.isclass(handler.__self__) else type(handler.__self__)


def _lacks_body(method: Callable[..., Any]) -> bool:
    code = inspect.unwrap(method).__code__
    return "NotImplementedError" in code.co_names and "return" not in inspect.getsource(method)


@cache
def _session() -> Any:
    return botocore.session.get_session()


def _operations(service: str) -> list[str]:
    return list(_session().get_service_model(service).operation_names)


def _title(service: str) -> str:
    metadata = _session().get_service_model(service).metadata
    return str(metadata.get("serviceAbbreviation") or metadata["serviceFullName"])


def _about(handler: Any) -> str:
    """Return the first paragraph of what the handler's module says of itself."""
    module = sys.modules[handler.__module__]
    return " ".join((module.__doc__ or "").split("\n\n", maxsplit=1)[0].split())


def calling_tests(services: list[Coverage]) -> dict[Operation, list[str]]:
    """Return the test files that call an operation by a boto3 client.

    A call by way of a function of a module of tests counts for the files of its folder and those
    that import it.
    """
    names: dict[str, set[Operation]] = defaultdict(set)
    for each in services:
        for operation in each.effects:
            names[xform_name(operation)].add((each.service, operation))
    paths = [path for folder in TEST_FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    tests = [path for path in paths if path.name.startswith("test_")]
    helpers = [_Helper(path, names) for path in paths if path not in set(tests)]
    files: dict[Operation, list[str]] = defaultdict(list)
    for path in tests:
        for called in _operations_of_test(path, helpers, names):
            files[called].append(str(path.relative_to(ROOT)))
    return files


def _operations_of_test(
    path: Path, helpers: list[_Helper], names: Mapping[str, set[Operation]]
) -> set[Operation]:
    text = path.read_text(encoding="utf-8")
    near = [each for each in helpers if each.path.parent == path.parent or each.module in text]
    operations, words = _called(text, names), _uses(text)
    seen: set[str] = set()
    while new := words - seen:
        seen |= new
        for helper in near:
            for name in new & helper.functions.keys():
                more, further = helper.functions[name]
                operations |= more
                words |= further
    return operations


class _Helper:
    """A module of tests that is no test: the operations and the names in each of its functions."""

    def __init__(self, path: Path, names: Mapping[str, set[Operation]]) -> None:
        self.path = path
        self.module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        self.functions: dict[str, tuple[set[Operation], set[str]]] = {}
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                body = "\n".join(lines[node.lineno - 1 : node.end_lineno])
                self.functions[node.name] = (_called(body, names), _uses(body))


def _uses(text: str) -> set[str]:
    """Return the names that the code calls, and the fixtures that its functions take."""
    signatures = " ".join(re.findall(r"def \w+\(([^)]*)\)", text))
    return {*re.findall(r"(\w+)\(", text), *re.findall(r"(\w+)(?=[:,]|$)", signatures)}


def _called(text: str, names: Mapping[str, set[Operation]]) -> set[Operation]:
    """Return the operations that the code calls: `client.method(` is one of the service that the
    words before the method name, or of the only service with such a method.
    """
    clients = dict(_ASSIGNMENT.findall(text)) | {"functions": "lambda"}
    modules = set(_IMPORT.findall(text))
    operations: set[Operation] = set()
    for call in _CALL.finditer(text):
        method = call[2] if call[1] == "get_paginator" else call[1]
        if not (candidates := names.get(method)):
            continue
        before = text[max(0, call.start() - _MAX_RECEIVER) : call.start()]
        words = set(re.findall(r"[\w-]+", _RECEIVER.findall(before)[0]))
        words |= {clients[word] for word in words & clients.keys()}
        named = {each for each in candidates if each[0] in words}
        only = len(candidates) == 1 and "_" in method and not words & modules
        operations |= named or (candidates if only else set())
    return operations


def _head(services: list[Coverage]) -> list[str]:
    total = {
        effect: sum(len(each.those(effect)) for each in services)
        for effect in (RUNS, KEPT, REFUSED)
    }
    rows = (
        f"| [{each.title}](#{each.title.lower().replace(' ', '-')}) | "
        + " | ".join(f"{len(each.those(effect)):,}" for effect in (RUNS, KEPT, REFUSED))
        + " |"
        for each in services
    )
    return [
        *_INTRODUCTION.splitlines(),
        "",
        "| service | runs | kept | refused |",
        "| --- | ---: | ---: | ---: |",
        *rows,
        f"| all | {total[RUNS]:,} | {total[KEPT]:,} | {total[REFUSED]:,} |",
        "",
    ]


def _section(each: Coverage, tests: Mapping[Operation, list[str]]) -> Iterator[str]:
    yield f"## {each.title}"
    yield ""
    if each.about:
        yield each.about
        yield ""
    done = [*each.those(RUNS), *each.those(KEPT)]
    rules = rules_of(each.service.removesuffix("-runtime"))
    yield "| operation | | IAM | tests |"
    yield "| --- | --- | --- | --- |"
    for operation in sorted(done):
        files = tests.get((each.service, operation), [])
        links = ", ".join(f"[{Path(file).stem}](../../{file})" for file in files[:MAX_FILES])
        more = f" and {len(files) - MAX_FILES} more" if len(files) > MAX_FILES else ""
        asked = "asked" if operation in rules else "root only"
        yield f"| `{operation}` | {each.effects[operation]} | {asked} | {links}{more} |"
    yield ""
    refused = each.those(REFUSED)
    if refused:
        names = ", ".join(f"`{name}`" for name in refused)
        yield f"<details><summary>{len(refused)} refused</summary>"
        yield ""
        yield names
        yield ""
        yield "</details>"
        yield ""


if __name__ == "__main__":
    main()
