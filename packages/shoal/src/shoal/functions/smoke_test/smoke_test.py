"""Sends a workload's requests to an endpoint and judges the answers.

`smoke_test.json`, which is packed next to this file, has `requests` (each `name`, `body` in base64,
`content_type`, `accept`, `expect`), `must_pass`, `every_answer` and `show`. It is written from the
workload's file by `packages/shoal/src/shoal/constructs/pipeline/pipeline_functions.py`, and so is
`workload_smoke_test.py`, the workload's own function, if it has one.

What must hold of an answer are JMESPath expressions, each with what its value must be. The keys of
such an expectation are `equals`; `near` with `within` or `within_percent`; `at_least` and
`at_most`. jmespath comes with boto3, which needs it; "The Lambda Python runtimes include the AWS
SDK for Python (Boto3) and its dependencies" (Lambda developer guide, "Working with .zip file
archives for Python Lambda functions"; read).
"""

import base64
import csv
import importlib
import io
import json
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jmespath
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

# No retries: a retried request would hide the latency and the error that this is for.
CLIENT = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=65)
_NAMED_FAILURES, _MAX_VALUE, _SPARE_S = 3, 60, 5.0
_OWN = "workload_smoke_test"


class SmokeTestError(Exception):
    """The endpoint does not do what it should."""


def in_time(test: Callable[[], Any], context: Any) -> Any:
    """Return what the test returns. Raises SmokeTestError shortly before Lambda would end it.

    It runs in a thread: no timeout of a socket ends an answer of which a byte comes now and then.
    """
    result = Future[Any]()

    def run() -> None:
        try:
            result.set_result(test())
        except Exception as error:  # noqa: BLE001 - raised below
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return result.result(context.get_remaining_time_in_millis() / 1000 - _SPARE_S)
    except TimeoutError as error:
        raise SmokeTestError("an answer had not ended when the function's time was over") from error
    except RecursionError as error:
        raise SmokeTestError("an answer is nested too deeply to be read") from error


@dataclass(frozen=True)
class Source:
    """The model that gave an answer, by the answer's own account; None is what it does not say."""

    training_job_name: str | None
    content_sha256: str | None


@dataclass(frozen=True)
class Answer:
    """The endpoint's answer to one request, judged."""

    request: str
    malformed: tuple[str, ...]
    """What does not hold that must hold of every answer."""
    failures: tuple[str, ...]
    """What does not hold that was expected of this one."""
    shown: Mapping[str, Any]
    """What of it the step reports."""
    source: Source | None
    """None where the answer is not JSON."""
    latency_ms: float

    @property
    def passed(self) -> bool:
        """Whether everything holds."""
        return not self.malformed and not self.failures


def ask_all(runtime: Any, endpoint_name: str) -> list[Answer]:
    """Return the endpoint's answers to all requests. Raises SmokeTestError."""
    test = _test()
    return [_ask(runtime, endpoint_name, request, test) for request in test["requests"]]


def wrong_answers(answers: list[Answer]) -> list[str]:
    """Return what is wrong with the answers; nothing if enough are right."""
    malformed = [
        f"{answer.request}: {', '.join(answer.malformed)}" for answer in answers if answer.malformed
    ]
    if malformed:
        return [
            f"{len(malformed)} of {len(answers)} answers have another form ({_some(malformed)})"
        ]
    passed, needed = sum(answer.passed for answer in answers), _test()["must_pass"]
    if passed >= needed:
        return []
    failed = [
        f"{answer.request}: {', '.join(answer.failures)}" for answer in answers if answer.failures
    ]
    return [f"{passed} of {len(answers)} requests passed, {needed} needed ({_some(failed)})"]


def own_failures(runtime: Any, endpoint_name: str) -> list[str]:
    """Return what the workload's own function finds wrong; nothing where it has none.

    What it raises is wrong too, and what it returns that is no list of texts.
    """
    if not Path(__file__).with_name(f"{_OWN}.py").is_file():
        return []

    def ask(
        body: bytes, content_type: str = "application/json", accept: str = "application/json"
    ) -> bytes:
        return _invoke(runtime, endpoint_name, "the function's request", body, content_type, accept)

    try:
        failures = importlib.import_module(_OWN).check(ask)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - code of the workload's
        return [f"the workload's own check raised {type(error).__name__}: {error}"]
    if not isinstance(failures, list) or not all(isinstance(each, str) for each in failures):
        return [f"the workload's own check returned {failures!r:.60}, not a list of texts"]
    return [f"the workload's own check: {_some(failures)}"] if failures else []


def sources(answers: list[Answer]) -> set[Source]:
    """Return the models that the answers name."""
    return {answer.source for answer in answers if answer.source}


def _test() -> dict[str, Any]:
    return dict(json.loads(Path(__file__).with_name("smoke_test.json").read_text()))


def _ask(runtime: Any, endpoint_name: str, request: dict[str, Any], test: dict[str, Any]) -> Answer:
    started = time.perf_counter()
    body = _invoke(
        runtime,
        endpoint_name,
        request["name"],
        base64.b64decode(request["body"]),
        request["content_type"],
        request["accept"],
    )
    latency_ms = (time.perf_counter() - started) * 1000
    is_json = request["accept"] == "application/json"
    try:
        answer = (
            json.loads(body, parse_constant=_finite, parse_float=_finite)
            if is_json
            else _rows(body.decode())
        )
    except (ValueError, csv.Error) as error:
        raise SmokeTestError(
            f"{endpoint_name} answered {request['name']} with what is not {request['accept']}"
            f" ({error!r}): {body[:500]!r}"
        ) from error
    expected = request["expect"] if is_json else _cells(request["expect"])
    model = answer.get("model") if isinstance(answer, dict) else None
    said = {key: str(model[key]) for key in model} if isinstance(model, dict) else {}
    shown = ((name, _value(expression, answer)) for name, expression in test["show"].items())
    return Answer(
        request["name"],
        tuple(_violations(test["every_answer"], answer)),
        tuple(_violations(expected, answer)),
        {name: value for name, value in shown if value is not None},
        Source(said.get("training_job_name"), said.get("content_sha256")) if is_json else None,
        latency_ms,
    )


def _invoke(
    runtime: Any, endpoint_name: str, name: str, body: bytes, content_type: str, accept: str
) -> bytes:
    """Return the answer's body. Raises SmokeTestError with the name of a refused request."""
    try:
        response = runtime.invoke_endpoint(
            EndpointName=endpoint_name, ContentType=content_type, Accept=accept, Body=body
        )
        return bytes(response["Body"].read())
    except ClientError as error:
        raise SmokeTestError(f"{endpoint_name} refused {name}: {error}") from error
    except BotoCoreError as error:
        raise SmokeTestError(f"{endpoint_name} did not answer {name}: {error}") from error


def _rows(text: str) -> list[list[str | float]]:
    return [[_number(cell) for cell in row] for row in csv.reader(io.StringIO(text)) if row]


def _number(cell: str) -> str | float:
    try:  # float() takes 1_0 and digits of other scripts, too
        return _finite(cell) if cell.isascii() and "_" not in cell else cell
    except ValueError:
        return cell


def _finite(text: str) -> float:
    if math.isfinite(number := float(text)):
        return number
    raise ValueError(f"{_short(text)} is no finite number")


def _cells(value: Any) -> Any:
    """Return what is expected as `_rows` reads it: labels that look like numbers are numbers."""
    if isinstance(value, dict):
        return {key: _cells(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_cells(each) for each in value]
    return _number(value) if isinstance(value, str) else value


def _value(expression: str, answer: Any) -> Any:
    try:
        value = jmespath.search(expression, answer)
    except (ValueError, OverflowError):
        return None
    return round(value, 4) if isinstance(value, float) else value


def _violations(expectations: Mapping[str, Mapping[str, Any]], answer: Any) -> Iterator[str]:
    """Yield a sentence for each expectation that does not hold of the answer."""
    for expression, expected in expectations.items():
        try:
            value = jmespath.search(expression, answer)
        except (ValueError, OverflowError) as error:  # the second of ceil(sum(...))
            yield f"{expression} has no value: {_short(str(error))}"
            continue
        if not _holds(value, expected):
            yield f"{expression} is {_short(json.dumps(value))}, must be {_in_words(expected)}"


def _holds(value: Any, expected: Mapping[str, Any]) -> bool:
    if "equals" in expected:
        return json.dumps(_plain(value)) == json.dumps(_plain(expected["equals"]))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if not abs(value) <= sys.float_info.max:  # as sum() and to_number() may make it
        return False
    if "near" in expected:
        share = abs(expected["near"]) * expected.get("within_percent", 0) / 100
        return bool(abs(value - expected["near"]) <= expected.get("within", share))
    return bool(
        expected.get("at_least", float("-inf")) <= value <= expected.get("at_most", float("inf"))
    )


def _plain(value: Any) -> Any:
    """Return the value with 7 and 7.0 as one number, and the keys of objects in order."""
    if isinstance(value, dict):
        return {key: _plain(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _in_words(expected: Mapping[str, Any]) -> str:
    if "equals" in expected:
        return _short(json.dumps(expected["equals"]))
    if "near" in expected:
        by = f"{expected['within_percent']:g}%" if "within_percent" in expected else None
        return f"within {by or format(expected['within'], 'g')} of {expected['near']:g}"
    words = {"at_least": "at least", "at_most": "at most"}
    return " and ".join(f"{words[key]} {expected[key]:g}" for key in words if key in expected)


def _short(text: str) -> str:
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 3]}..."


def _some(sentences: list[str]) -> str:
    more = len(sentences) - _NAMED_FAILURES
    return "; ".join(sentences[:_NAMED_FAILURES]) + (f"; and {more} more" if more > 0 else "")
