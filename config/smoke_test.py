"""The section `smoke_test` of a workload file: requests in files, and what must hold of answers.

What a key of `expect` and `every_answer` means is in `stacks/functions/smoke_test/expectations.py`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, GetJsonSchemaHandler, JsonValue, StringConstraints, model_validator
from pydantic_core import CoreSchema

from config.base import MediaType, Settings

RelativePath = Annotated[
    str,
    StringConstraints(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$", max_length=200
    ),
]


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

    @model_validator(mode="before")
    @classmethod
    def _alone(cls, value: Any) -> Any:
        return {"equals": value} if isinstance(value, str | int | float) else value


class _OrValue:
    """Tells editors that a value may stand for `{equals: value}`."""

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        values = [{"type": kind} for kind in ("string", "number", "boolean")]
        return {"anyOf": [handler(core), *values]}


Expectations = dict[str, Annotated[Expectation, _OrValue()]]


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
