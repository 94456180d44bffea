"""The section `smoke_test` of a workload file: requests in files, and what must hold of answers.

What a key of `expect` and `every_answer` means is in
`packages/shoal/src/shoal/functions/smoke_test/smoke_test.py`.
"""

import ast
import difflib
import json
import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.functions import Functions
from pydantic import BeforeValidator, Field, JsonValue

from shoal.settings.parsing.base import MediaType, Settings
from shoal.settings.parsing.errors import Problem
from shoal.settings.parsing.plain_files import mistake_in_python, tree_of
from shoal.settings.sections.evaluation import empty_range

RelativePath = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$", max_length=200),
]
MAX_BODY_BYTES = 6 * 1024 * 1024
"""Largest body of InvokeEndpoint (botocore 1.44.5, BodyBlob; read)."""
MAX_BYTES = 32 * 1024 * 1024
"""Of all bodies. They travel in the function's package, which may have 250 MB unpacked."""
_FORMS = "give a value alone, `near` with `within` or `within_percent`, or `at_least`, `at_most`"
_TOLERANCES = {"within", "within_percent"}
_KINDS = {"equals": {"equals"}, "near": {"near"} | _TOLERANCES, "a range": {"at_least", "at_most"}}
FUNCTION = "check"
MAX_FUNCTION_BYTES = 256 * 1024
MODULES = frozenset({*sys.stdlib_module_names, "boto3", "botocore", "jmespath"})
"""What Lambda's Python runtime has; jmespath comes with boto3."""


class Accept(StrEnum):
    """What an answer can be asked for as."""

    JSON = "application/json"
    CSV = "text/csv"


class Expectation(Settings):
    """What a value must be: `equals` (a value alone means that too), `near`, or a range."""

    equals: JsonValue = None
    """The value itself; text, numbers, true and false are told apart."""
    near: float | None = None
    """A number that the value is near to, by `within` or `within_percent`."""
    within: Annotated[float, Field(gt=0)] | None = None
    """How far the value may be from `near`."""
    within_percent: Annotated[float, Field(gt=0)] | None = None
    """How far the value may be from `near`, in percent of `near`."""
    at_least: float | None = None
    """The smallest number that is right."""
    at_most: float | None = None
    """The largest number that is right."""


def _alone(value: Any) -> Any:
    return {"equals": value} if isinstance(value, str | int | float) else value


_Alone = BeforeValidator(_alone, json_schema_input_type=Expectation | str | float | bool)
Expectations = dict[str, Annotated[Expectation, _Alone]]


class Request(Settings):
    """One request, and what must hold of its answer for it to pass."""

    body: RelativePath
    """File with the body, in the workload's folder; sent as it is."""
    content_type: MediaType = "application/json"
    """Media type of the body."""
    accept: Accept = Accept.JSON
    """Media type of the answer: JSON, or CSV, which expressions see as a list of rows."""
    expect: Expectations = Field(default_factory=dict)
    """JMESPath expression, such as `predictions[0].label`, to what its value must be."""


class SmokeTest(Settings):
    """What is asked of an endpoint, and when its answers are good enough."""

    requests: Annotated[tuple[Request, ...], Field(min_length=1, max_length=100)]
    """What is sent, in this order."""
    must_pass: Annotated[int, Field(ge=1)] | None = None
    """How many requests must pass; left out, all."""
    max_latency_ms: Annotated[int, Field(ge=1, le=60_000)] | None = None
    """How many milliseconds the slowest answer may take, unless an environment says otherwise at
    endpoint.max_latency_ms.
    """
    function: RelativePath | None = None
    """Python file in the workload's folder with `def check(ask) -> list[str]`, for what expressions
    cannot say: `ask(body, content_type, accept)` returns the answer's bytes, and each text that
    `check` returns fails the test. It has Python's standard library and boto3.
    """
    every_answer: Expectations = Field(default_factory=dict)
    """What must hold of every answer, whatever `must_pass` says: its form."""
    show: dict[str, str] = Field(default_factory=dict)
    """Name to JMESPath expression: what of an answer the step reports."""


def problems_of_smoke_test(test: SmokeTest, folder: Path) -> Iterator[Problem]:
    """Yield every problem; `folder` is the workload's."""
    if test.must_pass and test.must_pass > len(test.requests):
        message = f"is more than the {len(test.requests)} requests that there are"
        yield Problem("smoke_test.must_pass", message, "lower it")
    if all(request.accept is not Accept.JSON for request in test.requests):
        message = "no request accepts application/json, whose answer says which model gave it"
        yield Problem("smoke_test.requests", message, "let at least one accept it")
    yield from _expectations("smoke_test.every_answer", test.every_answer)
    yield from _requests(test.requests, folder)
    if test.function:
        yield from problems_of_function(folder / test.function, test.function)
    for name, expression in test.show.items():
        yield from _expression(f"smoke_test.show.{name}", expression)


def _requests(requests: tuple[Request, ...], folder: Path) -> Iterator[Problem]:
    sizes = 0
    for index, request in enumerate(requests):
        key = f"smoke_test.requests[{index}]"
        yield from _expectations(f"{key}.expect", request.expect)
        file = folder / request.body
        if not file.is_file():
            advice = "write it, or name one that is there"
            yield Problem(f"{key}.body", f"there is no such file in {folder.name}", advice)
            continue
        size = file.stat().st_size
        sizes += size
        if size > MAX_BODY_BYTES:
            message = f"has {size:,} bytes; an endpoint takes {MAX_BODY_BYTES:,}"
            yield Problem(f"{key}.body", message, "send less")
        elif request.content_type == Accept.JSON and not _is_json(file.read_bytes()):
            message = "is not JSON, which its content_type says"
            yield Problem(f"{key}.body", message, "correct one of the two")
    if sizes > MAX_BYTES:
        message = f"their bodies have {sizes:,} bytes; {MAX_BYTES:,} are packed with the function"
        yield Problem("smoke_test.requests", message, "send less")


def _expectations(key: str, expectations: Mapping[str, Expectation]) -> Iterator[Problem]:
    for expression, expected in expectations.items():
        yield from _expression(f"{key}.{expression}", expression)
        yield from _form(f"{key}.{expression}", expected)


def _form(key: str, expected: Expectation) -> Iterator[Problem]:
    """Say what is wrong with the combination of keys."""
    given = expected.model_fields_set
    tolerances = given & _TOLERANCES
    kinds = [kind for kind, keys in _KINDS.items() if given & keys]
    if len(kinds) != 1:
        message = f"mixes {' and '.join(kinds)}" if kinds else "says nothing of the value"
        yield Problem(key, message, _FORMS)
    elif kinds == ["near"] and (expected.near is None or len(tolerances) != 1):
        yield Problem(key, "needs `near`, and one of `within` and `within_percent`", _FORMS)
    elif expected.within_percent and not expected.near:
        yield Problem(key, "a percentage of 0 is 0", "write `within`")
    else:
        yield from empty_range(key, expected.at_least, expected.at_most)


def _expression(key: str, expression: str) -> Iterator[Problem]:
    try:
        parsed = jmespath.compile(expression).parsed
    except (JMESPathError, RecursionError) as error:
        message = f"is no JMESPath expression: {str(error).splitlines()[0]}"
        yield Problem(key, message, "see jmespath.org")
        return
    for name in sorted(set(_functions(parsed)) - set(Functions.FUNCTION_TABLE)):
        nearest = difflib.get_close_matches(name, Functions.FUNCTION_TABLE, n=1)
        advice = f"did you mean `{nearest[0]}`?" if nearest else "see jmespath.org"
        yield Problem(key, f"JMESPath has no function {name}", advice)


def _functions(node: Any) -> Iterator[str]:
    if node["type"] == "function_expression":
        yield node["value"]
    for child in node["children"]:
        if isinstance(child, dict):
            yield from _functions(child)


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True


def problems_of_function(file: Path, shown: str) -> Iterator[Problem]:
    """Yield what is wrong with the file, which the workload's file calls `shown`."""
    for message, advice in _mistakes_in_function(file):
        yield Problem("smoke_test.function", message, advice, shown)


def _mistakes_in_function(file: Path) -> Iterator[tuple[str, str]]:
    if not file.is_file():
        yield "there is no such file", "write it, or remove the key"
        return
    if (size := file.stat().st_size) > MAX_FUNCTION_BYTES:
        yield f"has {size:,} bytes; {MAX_FUNCTION_BYTES:,} are packed", "shorten it"
        return
    if mistake := mistake_in_python(file):
        yield mistake, "correct it"
        return
    module = tree_of(file.read_text(encoding="utf-8"))
    functions = {each.name: each.args for each in module.body if isinstance(each, ast.FunctionDef)}
    if (check := functions.get(FUNCTION)) is None:
        advice = f"write `def {FUNCTION}(ask):`, which returns a list of what is wrong"
        yield f"has no function {FUNCTION}", advice
    elif len(check.posonlyargs + check.args) != 1:
        message = f"has a function {FUNCTION} that does not take one argument"
        yield message, f"write `def {FUNCTION}(ask):`"
    for name in sorted(set(_imported(module)) - MODULES):
        advice = "use Python's standard library and boto3"
        yield f"imports {name or 'from its folder'}, which is not there", advice


def _imported(module: ast.Module) -> Iterator[str]:
    """Yield the first part of every module that is imported; nothing of a relative one."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "" if node.level else str(node.module).partition(".")[0]
