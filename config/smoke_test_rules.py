"""What a smoke test must obey that its types do not say: expressions, expectations and files."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.functions import Functions

from config.errors import NOTHING, Problem
from config.smoke_test import Accept, Expectation, Request, SmokeTest
from config.smoke_test_function import problems_of_function

MAX_BODY_BYTES = 6 * 1024 * 1024
"""Largest body of InvokeEndpoint (botocore 1.44.5, BodyBlob; read)."""
MAX_BYTES = 32 * 1024 * 1024
"""Of all bodies. They travel in the function's package, which may have 250 MB unpacked."""
_FORMS = "give a value alone, `near` with `within` or `within_percent`, or `at_least`, `at_most`"


def problems_of_smoke_test(test: SmokeTest, folder: Path) -> list[Problem]:
    """Return every problem; `folder` is the workload's."""
    return [
        *_number(test),
        *_expectations("smoke_test.every_answer", test.every_answer),
        *_requests(test.requests, folder),
        *(problems_of_function(folder / test.function, test.function) if test.function else ()),
        *(
            problem
            for name, expression in test.show.items()
            for problem in _expression(f"smoke_test.show.{name}", expression, expression)
        ),
    ]


def _number(test: SmokeTest) -> Iterator[Problem]:
    if test.must_pass and test.must_pass > len(test.requests):
        message = f"is more than the {len(test.requests)} requests that there are"
        yield Problem("smoke_test.must_pass", message, "lower it", test.must_pass)
    if all(request.accept is not Accept.JSON for request in test.requests):
        message = "no request accepts application/json, whose answer says which model gave it"
        yield Problem("smoke_test.requests", message, "let at least one accept it")


def _requests(requests: tuple[Request, ...], folder: Path) -> Iterator[Problem]:
    sizes = 0
    for index, request in enumerate(requests):
        key = f"smoke_test.requests[{index}]"
        yield from _expectations(f"{key}.expect", request.expect)
        file = folder / request.body
        if not file.is_file():
            advice = "write it, or name one that is there"
            yield Problem(
                f"{key}.body", f"there is no such file in {folder.name}", advice, request.body
            )
            continue
        size = file.stat().st_size
        sizes += size
        if size > MAX_BODY_BYTES:
            message = f"has {size:,} bytes; an endpoint takes {MAX_BODY_BYTES:,}"
            yield Problem(f"{key}.body", message, "send less", request.body)
        elif request.content_type == Accept.JSON and not _is_json(file.read_bytes()):
            message = "is not JSON, which its content_type says"
            yield Problem(f"{key}.body", message, "correct one of the two", request.body)
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
    tolerances = given & {"within", "within_percent"}
    kinds = [
        *(["equals"] if "equals" in given else []),
        *(["near"] if "near" in given or tolerances else []),
        *(["a range"] if given & {"at_least", "at_most"} else []),
    ]
    if len(kinds) != 1:
        message = f"mixes {' and '.join(kinds)}" if kinds else "says nothing of the value"
        yield Problem(key, message, _FORMS)
    elif kinds == ["near"] and (expected.near is None or len(tolerances) != 1):
        yield Problem(key, "needs `near`, and one of `within` and `within_percent`", _FORMS)
    elif expected.within_percent and not expected.near:
        yield Problem(key, "a percentage of 0 is 0", "write `within`")
    elif (
        expected.at_least is not None
        and expected.at_most is not None
        and expected.at_least > expected.at_most
    ):
        message = f"no number is at least {expected.at_least:g} and at most {expected.at_most:g}"
        yield Problem(key, message, "correct one of the two")


def _expression(key: str, expression: str, value: Any = NOTHING) -> Iterator[Problem]:
    try:
        parsed = jmespath.compile(expression).parsed
    except JMESPathError as error:
        message = f"is no JMESPath expression: {str(error).splitlines()[0]}"
        yield Problem(key, message, "see jmespath.org", value)
        return
    for name in sorted(set(_functions(parsed)) - set(Functions.FUNCTION_TABLE)):
        nearest = difflib.get_close_matches(name, Functions.FUNCTION_TABLE, n=1)
        advice = f"did you mean `{nearest[0]}`?" if nearest else "see jmespath.org"
        yield Problem(key, f"JMESPath has no function {name}", advice, value)


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
