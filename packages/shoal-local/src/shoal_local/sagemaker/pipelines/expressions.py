"""The parameters of a pipeline, and the expressions of its definition: their references, and their
values while it runs.

There are `Get` (parameters, execution variables, outputs of steps), `Std:Join` and `Std:JsonGet`
of a property file or, as SageMaker's SDK writes it for `JsonGet(s3_uri=...)`, of an `S3Uri`.
Anything else that looks like an expression is refused by name.
"""

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal_local.sagemaker.errors import invalid, not_emulated, unparsable
from shoal_local.sagemaker.shapes import Anything, Document

EXECUTION_VARIABLES = frozenset(
    {
        *("PipelineExecutionId", "PipelineName", "PipelineArn", "PipelineExecutionArn"),
        *("StartDateTime", "CurrentDateTime"),
    }
)
_PROPERTY_FILE = ".PropertyFiles."
_PART = re.compile(r"\.?([A-Za-z0-9_-]+)|\[(\d+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
_REFERENCE = re.compile(r"(Parameters|Execution|Steps)\.([A-Za-z0-9_-]+)(.*)")
_NAME_KEYS = ("OutputName", "InputName", "ChannelName", "VariantName", "Name")


class ExpressionError(Exception):
    """An expression has no value (a missing field, an unreadable property file); its step fails."""


@dataclass(frozen=True)
class Reference:
    """The parts of a `Get`: Parameters, Execution or Steps, a name, and the path that follows."""

    kind: str
    name: str
    path: str

    @property
    def property_file(self) -> str:
        """Return the name of a step's property file; "" for any other reference."""
        is_file = self.kind == "Steps" and self.path.startswith(_PROPERTY_FILE)
        return self.path.removeprefix(_PROPERTY_FILE) if is_file else ""


def is_expression(value: Any) -> bool:
    if not isinstance(value, dict) or len(value) != 1:
        return False
    (function,) = value
    return bool(function == "Get" or function.startswith("Std:"))


def reference(text: Any) -> Reference:
    """Parse the value of a `Get`."""
    match = _REFERENCE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise not_emulated(f"the expression Get {text!r}")
    return Reference(*match.groups())


def references(value: Any) -> Iterator[Reference]:
    """Yield every reference in a document, and check the expressions."""
    if is_expression(value):
        yield from _expression_references(value)
    elif isinstance(value, dict):
        for member in value.values():
            yield from references(member)
    elif isinstance(value, list):
        for member in value:
            yield from references(member)


def _expression_references(expression: Document) -> Iterator[Reference]:
    match expression:
        case {"Get": operand}:
            yield reference(operand)
        case {"Std:Join": {"On": _, "Values": list(values), **others}} if not others:
            yield from references(values)
        case {"Std:JsonGet": {"PropertyFile": file, "Path": _, **others}} if not others:
            property_file = reference(file.get("Get") if isinstance(file, dict) else None)
            if not property_file.property_file:
                raise invalid(f"Std:JsonGet needs Steps.<step>.PropertyFiles.<name>, not {file}")
            yield property_file
        case {"Std:JsonGet": {"S3Uri": uri, "Path": _, **others}} if not others:
            yield from references(uri)
        case _:
            raise not_emulated(f"the expression {json.dumps(expression)[:200]}")


def with_wildcards(value: Any, known: Callable[[Document], Any] = lambda _expression: None) -> Any:
    """Return the document with each expression as its value if `known`, or one that always fits."""

    def wildcard(expression: Document) -> Any:
        known_value = known(expression)
        return Anything() if known_value is None else known_value

    return replaced(value, wildcard)


def replaced(value: Any, replace: Callable[[Document], Any]) -> Any:
    """Return a document with every expression replaced."""
    if is_expression(value):
        return replace(value)
    if isinstance(value, dict):
        return {key: replaced(member, replace) for key, member in value.items()}
    return [replaced(member, replace) for member in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class Scope:
    """What expressions refer to while an execution runs.

    `outputs(step)` returns what a Get of the step reads; `property_file(step, name)` the parsed
    JSON of a property file; `json_at(uri)` that of an object in S3.
    """

    parameters: Mapping[str, Any]
    execution: Callable[[str], str]
    outputs: Callable[[str], Document]
    property_file: Callable[[str, str], Any]
    json_at: Callable[[str], Any]

    def resolve(self, value: Any) -> Any:
        """Return `value` with every expression replaced by its value."""
        return replaced(value, self._value)

    def _value(self, expression: Document) -> Any:
        ((function, operand),) = expression.items()
        if function == "Get":
            return self._get(reference(operand))
        if function == "Std:Join":
            return self._text(operand["On"]).join(self._text(each) for each in operand["Values"])
        path = self._text(operand["Path"])
        if "S3Uri" in operand:
            uri = self._text(operand["S3Uri"])
            return walk(self.json_at(uri), path, uri)
        file = reference(operand["PropertyFile"]["Get"])
        content = self.property_file(file.name, file.property_file)
        return walk(content, path, f"the property file {file.property_file}")

    def _get(self, get: Reference) -> Any:
        if get.kind == "Parameters":
            return self.parameters[get.name]
        if get.kind == "Execution":
            return self.execution(get.name)
        return walk(self.outputs(get.name), get.path, f"the step {get.name}")

    def _text(self, value: Any) -> str:
        return text_of(self.resolve(value))


def text_of(value: Any) -> str:
    """Return a value as the API carries it."""
    return value if isinstance(value, str) else json.dumps(value)


def entries(values: Mapping[str, Any]) -> list[Document]:
    """Return values as a list of Name and Value."""
    return [{"Name": name, "Value": text_of(value)} for name, value in values.items()]


def walk(document: Any, path: str, where: str) -> Any:
    """Return the value at `path`: `.a`, `[0]`, `['name']` (a member, or a list's entry)."""
    position, value = 0, document
    while position < len(path):
        match = _PART.match(path, position)
        if match is None:
            raise ExpressionError(f"The path {path} in {where} cannot be read")
        value = _member(value, match, path, where)
        position = match.end()
    return value


def _member(value: Any, match: re.Match[str], path: str, where: str) -> Any:
    field, index, quoted, double_quoted = match.groups()
    name = field or quoted or double_quoted
    if isinstance(value, list):
        matches = value[int(index) :] if index else []
        if name:
            matches = [each for each in value if any(each.get(key) == name for key in _NAME_KEYS)]
        if matches:
            return matches[0]
    elif isinstance(value, dict) and (name or index) in value:
        return value[name or index]
    raise ExpressionError(f"There is no {path.lstrip('.')} in {where}")


_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "Equals": operator.eq,
    "NotEquals": operator.ne,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqualTo": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqualTo": operator.le,
}


def holds(condition: Document, resolve: Callable[[Any], Any]) -> bool:
    """Return whether a condition is true; raise ExpressionError if its values do not compare."""
    kind = condition["Type"]
    if kind == "Not":
        return not holds(condition["Expression"], resolve)
    if kind == "Or":
        return any(holds(each, resolve) for each in condition["Conditions"])
    if kind in {"In", "NotIn"}:
        is_member = resolve(condition["QueryValue"]) in [
            resolve(each) for each in condition["Values"]
        ]
        return is_member is (kind == "In")
    left, right = resolve(condition["LeftValue"]), resolve(condition["RightValue"])
    error = ExpressionError(f"{kind} cannot compare {left!r} with {right!r}")
    if "Than" in kind and bool in {type(left), type(right)}:
        raise error  # a bool is an int to Python: true would be at least 0.97
    try:
        return bool(_COMPARISONS[kind](left, right))
    except TypeError:
        raise error from None


@dataclass(frozen=True)
class Parameter:
    """One declared parameter; `default` None means that a start must set a value."""

    name: str
    type: str
    default: Any
    allowed: tuple[Any, ...]

    def check(self, value: Any) -> Any:
        """Return `value` if it is allowed."""
        if self.allowed and value not in self.allowed:
            raise invalid(
                f"Parameter [{self.name}] value {value!r} is not one of {list(self.allowed)}"
            )
        return value

    def from_text(self, text: str) -> Any:
        """Return the value that the API carries as text, which a start may not leave empty
        (sagemaker-python-sdk, issue 4016).
        """
        if not text:
            raise invalid('[string "" is too short (length: 0, required minimum: 1)]')
        try:
            value = FROM_TEXT[self.type](text)
        except (ValueError, OverflowError):
            message = f"Parameter [{self.name}] value {text!r} is not of type {self.type}"
            raise invalid(message) from None
        return self.check(value)


def _boolean(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError(text)
    return text.lower() == "true"


FROM_TEXT: Mapping[str, Callable[[str], Any]] = {
    "Integer": int,
    "Float": float,
    "String": str,
    "Boolean": _boolean,
}
"""What makes a value of the text that the API carries; each raises ValueError."""


def parse_parameters(documents: Sequence[Document]) -> dict[str, Parameter]:
    """Return the declarations by name."""
    parameters: dict[str, Parameter] = {}
    for document in documents:
        name, default = document["Name"], document.get("DefaultValue")
        if name in parameters:
            raise unparsable(f"The parameter {name} is declared twice")
        allowed = tuple(document.get("EnumValues", ()))
        parameters[name] = Parameter(name, document["Type"], default, allowed)
        if default is not None:
            parameters[name].check(default)
    return parameters


def values_of(
    parameters: Mapping[str, Parameter], assignments: Sequence[Document]
) -> dict[str, Any]:
    """Return the values of one execution: those assigned at its start, else the defaults."""
    unknown_names = [each["Name"] for each in assignments if each["Name"] not in parameters]
    if unknown_names:
        raise invalid(f"Unknown parameters: {unknown_names}; the pipeline has {sorted(parameters)}")
    values = {name: parameter.default for name, parameter in parameters.items()}
    values |= {
        each["Name"]: parameters[each["Name"]].from_text(each["Value"]) for each in assignments
    }
    missing_names = [name for name, value in values.items() if value is None]
    if missing_names:
        raise invalid(f"Parameters without a default need a value: {missing_names}")
    return values
