"""Checks requests and responses against botocore's own model of the SageMaker API.

Errors of requests are worded as AWS words them. Two rules are stricter than the service, so that a
typing mistake is seen here and not on AWS: an unknown field is an error, and so is a value of the
wrong type that AWS might coerce.
"""

import functools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import botocore.session
from botocore.model import (
    ListShape,
    MapShape,
    OperationNotFoundError,
    ServiceModel,
    Shape,
    StringShape,
    StructureShape,
)

from shoal_local.errors import AwsError

Document = dict[str, Any]


class Anything:
    """Stands for a value that is not known yet (a pipeline's expression); it fits every shape.

    Neither its truth nor whether it equals another is known: a check that needs it ends with
    TypeError.
    """

    def _unknown(self, *_others: object) -> Any:
        raise TypeError("a value that is not known yet")

    __eq__ = __bool__ = __hash__ = _unknown


@functools.cache
def _model() -> ServiceModel:
    """Return botocore's model of the SageMaker control plane."""
    return botocore.session.Session().get_service_model("sagemaker")


@functools.cache
def structure(name: str) -> StructureShape:
    """Return the structure of that name."""
    return cast(StructureShape, _model().shape_for(name))


@functools.cache
def input_shape(operation: str) -> StructureShape:
    """Return the request shape of `operation`; raise AwsError if AWS has no such operation."""
    try:
        shape = _model().operation_model(operation).input_shape
    except OperationNotFoundError:
        raise AwsError(
            "UnknownOperationException", f"SageMaker has no operation {operation}."
        ) from None
    return cast(StructureShape, shape)


def check_request(operation: str, request: Document) -> None:
    """Raise ValidationException, in AWS's words, if the request breaks its shape."""
    errors = list(shape_errors(input_shape(operation), request, ""))
    if errors:
        count = f"{len(errors)} validation error{'s' if len(errors) > 1 else ''} detected: "
        raise AwsError("ValidationException", count + "; ".join(errors))


def response(operation: str, record: Document) -> Document:
    """Return the members of `record` that the response of `operation` has.

    Raise InternalFailure for a response that AWS does not document: a bug of the emulator.
    """
    shape = _model().operation_model(operation).output_shape
    if shape is None:
        return {}
    members = _members_of(shape, record)
    if errors := list(shape_errors(shape, members, "")):
        raise AwsError(
            "InternalFailure",
            f"The emulator made a response that AWS does not: {operation}: {'; '.join(errors)}",
            500,
        )
    return members


def only_members(shape_name: str, record: Document) -> Document:
    """Return the members of `record` that the structure has: a list's summary of a description."""
    return _members_of(structure(shape_name), record)


def _members_of(shape: StructureShape, record: Document) -> Document:
    return {key: value for key, value in record.items() if key in shape.members}


def fitting(shape_name: str, member: str, text: str, ending: str = "") -> str:
    """Return `text` cut to the length that the member of a structure may have, then `ending`.

    A program's words can have any length, and an answer that breaks its shape is no answer.
    """
    max_length = structure(shape_name).members[member].metadata["max"]
    return text[: max_length - len(ending)] + ending


_NUMBER, _WHOLE = (int, float), (int,)
_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "structure": ((dict,), "a structure"),
    "list": ((list,), "a list"),
    "map": ((dict,), "a map"),
    "string": ((str,), "a string"),
    "integer": (_WHOLE, "of type integer"),
    "long": (_WHOLE, "of type long"),
    "float": (_NUMBER, "of type float"),
    "double": (_NUMBER, "of type double"),
    "timestamp": (_NUMBER, "of type timestamp"),
    "boolean": ((bool,), "of type boolean"),
}
"""The Python types of a value by the type of its shape, and AWS's words for it."""


def shape_errors(shape: Shape, value: Any, path: str) -> Iterator[str]:
    """Yield every way in which `value` breaks `shape`; `path` names the place as AWS does."""
    if isinstance(value, Anything):
        return
    if value is None:
        yield _error(value, path, "Member must not be null")
        return
    types, words = _TYPES.get(shape.type_name, ((object,), ""))
    is_number = isinstance(value, bool) and types in {_NUMBER, _WHOLE}  # a bool is an int in Python
    is_other = not isinstance(value, types)
    if is_number or is_other:
        yield _error(value, path, f"Member must be {words}")
        return
    yield from _bound_errors(shape, value, path)
    if isinstance(shape, StructureShape):
        yield from _structure_errors(shape, value, path)
    elif isinstance(shape, ListShape):
        for position, member in enumerate(value, start=1):
            yield from shape_errors(shape.member, member, f"{path}.{position}.member")
    elif isinstance(shape, MapShape):
        for key, member in value.items():
            yield from shape_errors(shape.key, key, f"{path}.key")
            yield from shape_errors(shape.value, member, f"{path}.{key}.member")
    elif isinstance(shape, StringShape):
        yield from _string_errors(shape, value, path)


def _error(value: Any, path: str, constraint: str) -> str:
    text = "null" if value is None else f"'{value}'"
    return f"Value {text} at '{path}' failed to satisfy constraint: {constraint}"


def _below(path: str, member: str) -> str:
    name = member[:1].lower() + member[1:]
    return f"{path}.{name}" if path else name


def _structure_errors(shape: StructureShape, value: Any, path: str) -> Iterator[str]:
    for name in shape.required_members:
        if name not in value:
            yield _error(None, _below(path, name), "Member must not be null")
    for name, member_value in value.items():
        if name in shape.members:
            yield from shape_errors(shape.members[name], member_value, _below(path, name))
        else:
            constraint = f"Unknown field; {shape.name} has {', '.join(sorted(shape.members))}"
            yield _error(member_value, _below(path, name), constraint)


def _string_errors(shape: StringShape, value: str, path: str) -> Iterator[str]:
    if shape.enum and value not in shape.enum:
        yield _error(value, path, f"Member must satisfy enum value set: [{', '.join(shape.enum)}]")
    pattern = _compile_pattern(shape.metadata.get("pattern", ""))
    if pattern and not pattern.fullmatch(value):
        constraint = "Member must satisfy regular expression pattern:"
        yield _error(value, path, f"{constraint} {shape.metadata['pattern']}")


@functools.cache
def _compile_pattern(pattern: str) -> re.Pattern[str] | None:
    """Return Java's expression as Python's; what Python cannot read is not checked."""
    for java, python in (
        (r"\p{L}", r"a-zA-Z\u00aa-\uffff"),
        (r"\p{Z}", r"\s"),
        (r"\p{N}", r"\d"),
        (r"\p{M}", ""),
    ):
        pattern = pattern.replace(java, python)
    pattern = re.sub(r"\$\{\d+,\d+\}$", "", pattern)  # of metadata; Java repeats the end of a text
    try:
        return re.compile(pattern) if pattern else None
    except re.error:
        return None


def _bound_errors(shape: Shape, value: Any, path: str) -> Iterator[str]:
    what, size = ("value", value) if isinstance(value, int | float) else ("length", len(value))
    low, high = shape.metadata.get("min", -math.inf), shape.metadata.get("max", math.inf)
    if size < low:
        yield _error(value, path, f"Member must have {what} greater than or equal to {low}")
    if size > high:
        yield _error(value, path, f"Member must have {what} less than or equal to {high}")
