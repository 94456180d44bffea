"""Check the Arguments of steps against the Create requests that they stand for.

The rules are botocore's own request shapes, read from its data files without a client, a region or
a request. Values that are only known later, expressions and CDK tokens, match anything; a parameter
is checked with its default.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from shoal.pipelines.graph_rules import references_in
from shoal.pipelines.limits import every_step
from shoal.settings.parsing.errors import DefinitionError

if TYPE_CHECKING:
    from botocore.model import ServiceModel

CREATE_CALLS = {
    "Training": ("CreateTrainingJob", "TrainingJobName"),
    "Processing": ("CreateProcessingJob", "ProcessingJobName"),
    "Transform": ("CreateTransformJob", "TransformJobName"),
    "Tuning": ("CreateHyperParameterTuningJob", "HyperParameterTuningJobName"),
    "RegisterModel": ("CreateModelPackage", None),
    "Model": ("CreateModel", "ModelName"),
    "EndpointConfig": ("CreateEndpointConfig", None),
    "Endpoint": ("CreateEndpoint", None),
}
"""Step type to its operation, and the name that the pipeline generates, if given from a prefix."""
MAX_DEFINITION = 1_048_576  # botocore, sagemaker PipelineDefinition
_EXPRESSIONS = frozenset({"Get", "Std:Join", "Std:JsonGet"})
_PROPERTY = re.compile(r"\.?([A-Za-z0-9_-]+)|\[(?:'[^']*'|\"[^\"]*\"|\d+)\]")
_TOKEN = re.compile(r"\$\{Token\[")
_ADVICE_LENGTH = 6


def check(definition: Mapping[str, Any]) -> None:
    """Raise DefinitionError with every difference, each with its step and path."""
    mistakes = list(mistakes_in(definition))
    if mistakes:
        raise DefinitionError(mistakes)


def mistakes_in(definition: Mapping[str, Any]) -> Iterator[str]:
    """Yield every difference, as in `Train.ResourceConfig.InstanceTyp: unknown field`."""
    size = len(json.dumps(definition))
    if size > MAX_DEFINITION:
        yield f"the definition has {size} characters; SageMaker allows {MAX_DEFINITION}"
    defaults = {
        parameter["Name"]: parameter.get("DefaultValue")
        for parameter in definition.get("Parameters", ())
    }
    for step in every_step(definition["Steps"]):
        yield from _step_mistakes(step, defaults)
    yield from _property_mistakes(definition["Steps"])


def _property_mistakes(steps: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what a step's Describe call would not answer: paid jobs would run before that fails."""
    kinds = {step["Name"]: step["Type"] for step in every_step(steps)}
    for text in dict.fromkeys(references_in(steps)):
        kind, _, rest = text.partition(".")
        name, _, path = rest.partition(".")
        operation, _ = CREATE_CALLS.get(kinds.get(name, ""), ("", None))
        # of a tuning job its training jobs can be read, too
        is_other = path.startswith(("PropertyFiles.", "TrainingJobSummaries"))
        if kind == "Steps" and operation and not is_other:
            describe = operation.replace("Create", "Describe", 1)
            shape = _service_model().operation_model(describe).output_shape
            if message := _path_mistake(shape, path):
                yield f"{text}: {describe} answers {message}"


def _path_mistake(shape: Any, path: str) -> str:
    """Return what is wrong with a path into an answer; "" if it is there."""
    position = 0
    while position < len(path):
        match = _PROPERTY.match(path, position)
        if match is None:
            return f"nothing at {path[position:]}"
        position, field = match.end(), match[1]
        if shape.type_name == "structure" and field in shape.members:
            shape = shape.members[field]
        elif shape.type_name == "structure":
            return f"no {match[0].lstrip('.')}; it has {_some(sorted(shape.members), str(field))}"
        elif shape.type_name == "map":
            shape = shape.value
        elif shape.type_name == "list" and not field:
            shape = shape.member
        else:
            return f"a {shape.type_name} before {match[0]}"
    return ""


def _step_mistakes(step: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[str]:
    kind, name, arguments = step["Type"], step["Name"], step["Arguments"]
    if kind in CREATE_CALLS:
        operation, generated = CREATE_CALLS[kind]
        shape = _service_model().operation_model(operation).input_shape
        # an expression counts as there, whatever it stands for
        request = {generated: {"Get": ""}} if generated else {}
        yield from _Checker(defaults).value(shape, {**request, **arguments}, name)
    elif kind in {"Callback", "Lambda"}:
        yield from _flat_mistakes(kind, name, arguments)
    elif kind == "Fail" and set(arguments) != {"ErrorMessage"}:
        yield f"{name}: Fail takes ErrorMessage and nothing else"
    elif kind not in {"Condition", "Fail"}:
        known = ", ".join([*CREATE_CALLS, "Callback", "Condition", "Fail", "Lambda"])
        yield f"{name}: there is no rule for step type {kind}; known: {known}"


def _flat_mistakes(kind: str, name: str, arguments: Mapping[str, Any]) -> Iterator[str]:
    """Lambda inputs are flat:
    https://docs.aws.amazon.com/sagemaker/latest/dg/build-and-manage-steps-types.html#step-type-lambda

    Of a Callback's the page has flat examples and says nothing.
    """
    for key, value in arguments.items():
        if not isinstance(value, str | int | float | bool) and not is_expression(value):
            yield (
                f"{name}.{key}: inputs of a {kind} step are text, numbers, true or false, not"
                f" {type(value).__name__}"
            )


@cache
def _service_model() -> ServiceModel:
    """Return SageMaker's model from botocore's own data, without models of the user's account."""
    from botocore.loaders import Loader  # 0.2 s, so only where a definition is checked
    from botocore.model import ServiceModel

    loader = Loader(
        extra_search_paths=[Loader.BUILTIN_DATA_PATH], include_default_search_paths=False
    )
    return ServiceModel(
        loader.load_service_model("sagemaker", "service-2"), service_name="sagemaker"
    )


def values_of(shape_name: str) -> tuple[str, ...]:
    """Return the values of an enumeration, such as TrainingInstanceType."""
    shape: Any = _service_model().shape_for(shape_name)
    return tuple(shape.enum)


def is_expression(value: Any) -> bool:
    """Return whether SageMaker computes this value while the execution runs."""
    return isinstance(value, Mapping) and len(value) == 1 and next(iter(value)) in _EXPRESSIONS


@dataclass(frozen=True)
class _Checker:
    """A walk through a request and its shape together."""

    defaults: Mapping[str, Any]

    def value(self, shape: Any, value: Any, path: str) -> Iterator[str]:
        value = self._default_of(value)
        types, words = _TYPES.get(shape.type_name, ((), ""))
        is_token = isinstance(value, str) and _TOKEN.search(value) is not None
        if is_expression(value) or is_token or not types:
            return
        is_right = isinstance(value, types) and (bool in types or not isinstance(value, bool))
        if not is_right:
            yield f"{path}: must be {words}, not {type(value).__name__}"
        elif shape.type_name == "structure":
            yield from self._structure(shape, value, path)
        elif shape.type_name == "list":
            yield from _outside(shape, len(value), path, "items")
            for index, item in enumerate(value):
                yield from self.value(shape.member, item, f"{path}[{index}]")
        elif shape.type_name == "map":
            yield from _outside(shape, len(value), path, "entries")
            for key, item in value.items():
                yield from self.value(shape.key, key, f"{path} key {key!r}")
                yield from self.value(shape.value, item, f"{path}.{key}")
        elif shape.type_name == "string":
            yield from _text_mistakes(shape, value, path)
        else:
            yield from _outside(shape, value, path)

    def _default_of(self, value: Any) -> Any:
        """Return the default of a parameter that stands alone."""
        if not is_expression(value) or not str(value.get("Get")).startswith("Parameters."):
            return value
        default = self.defaults.get(value["Get"].removeprefix("Parameters."))
        return value if default is None else default

    def _structure(self, shape: Any, value: Mapping[str, Any], path: str) -> Iterator[str]:
        for key in value:
            if key not in shape.members:
                known = _some(sorted(shape.members), key)
                yield f"{path}.{key}: unknown field of {shape.name}; it has {known}"
        for key in shape.required_members:
            if key not in value:
                yield f"{path}.{key}: required field of {shape.name} is missing"
        for key in value.keys() & shape.members.keys():
            yield from self.value(shape.members[key], value[key], f"{path}.{key}")


_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "structure": ((Mapping,), "an object"),
    "map": ((Mapping,), "an object"),
    "list": ((list,), "a list"),
    "string": ((str,), "text"),
    "boolean": ((bool,), "true or false"),
    **dict.fromkeys(("integer", "long"), ((int,), "a whole number")),
    **dict.fromkeys(("float", "double"), ((int, float), "a number")),
}
"""Python's types of a shape's, and how a message calls them; no other is checked."""


def _text_mistakes(shape: Any, value: str, path: str) -> Iterator[str]:
    if shape.enum and value not in shape.enum:
        yield f"{path}: {value!r} is not one of {_some(shape.enum, value)}"
        return
    yield from _outside(shape, len(value), path, "characters")
    pattern = _compiled(shape.metadata.get("pattern", ""))
    if pattern and not pattern.fullmatch(value):
        yield f"{path}: {value!r} does not match {pattern.pattern}"


def _outside(shape: Any, size: float, path: str, unit: str = "") -> Iterator[str]:
    """Check `size` against the shape's own bounds."""
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if (low is not None and size < low) or (high is not None and size > high):
        bounds = f"{'any' if low is None else low} to {'any' if high is None else high}"
        yield f"{path}: {size} {unit}".rstrip() + f"; allowed are {bounds}"


@cache
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """Return the pattern if Python can read it: some are written for Java."""
    try:
        return re.compile(pattern) if pattern else None
    except re.error:
        return None


def _some(names: Sequence[str], name: str) -> str:
    """Return the names nearest to `name` first, and how many there are."""
    import difflib

    near = difflib.get_close_matches(name, names, n=_ADVICE_LENGTH, cutoff=0.5) or list(
        names[:_ADVICE_LENGTH]
    )
    rest = len(names) - len(near)
    return ", ".join(near) + (f" and {rest} more" if rest else "")
