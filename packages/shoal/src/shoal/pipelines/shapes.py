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

from shoal.launch.errors import ArgumentsError
from shoal.pipelines.limits import every_step

if TYPE_CHECKING:
    from botocore.model import ServiceModel, Shape, StructureShape

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
"""Step type to its operation, and the name that the pipeline itself generates."""
MAX_DEFINITION = 1_048_576  # botocore, sagemaker PipelineDefinition
_EXPRESSIONS = frozenset({"Get", "Std:Join", "Std:JsonGet"})
_TOKEN = re.compile(r"\$\{Token\[")
_ADVICE_LENGTH = 6


def check(definition: Mapping[str, Any]) -> None:
    """Raise ArgumentsError with every difference, each with its step and path."""
    mistakes = list(mistakes_in(definition))
    if mistakes:
        raise ArgumentsError(mistakes)


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


def _step_mistakes(step: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[str]:
    kind, name, arguments = step["Type"], step["Name"], step["Arguments"]
    if kind in CREATE_CALLS:
        operation, generated = CREATE_CALLS[kind]
        checker = _Checker(defaults, frozenset({generated} if generated else ()))
        yield from checker.structure(_input_shape(operation), arguments, name, is_request=True)
    elif kind in {"Callback", "Lambda"}:
        yield from _flat_mistakes(kind, name, arguments)
    elif kind == "Fail":
        yield from (
            []
            if set(arguments) == {"ErrorMessage"}
            else [f"{name}: Fail takes ErrorMessage and nothing else"]
        )
    elif kind != "Condition":
        yield (
            f"{name}: there is no rule for step type {kind}; known:"
            f" {', '.join([*CREATE_CALLS, 'Callback', 'Condition', 'Fail', 'Lambda'])}"
        )


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
    """Return SageMaker's model from botocore's own data, without the models of the user's account
    settings.
    """
    from botocore.loaders import Loader  # 0.2 s, so only where a definition is checked
    from botocore.model import ServiceModel

    loader = Loader(
        extra_search_paths=[Loader.BUILTIN_DATA_PATH], include_default_search_paths=False
    )
    return ServiceModel(
        loader.load_service_model("sagemaker", "service-2"), service_name="sagemaker"
    )


def _input_shape(operation: str) -> StructureShape:
    shape = _service_model().operation_model(operation).input_shape
    if shape is None:
        raise ValueError(f"{operation} takes no request")
    return shape


def values_of(shape_name: str) -> tuple[str, ...]:
    """Return the values of an enumeration, such as TrainingInstanceType."""
    shape: Any = _service_model().shape_for(shape_name)
    return tuple(shape.enum)


def is_expression(value: Any) -> bool:
    """Return whether SageMaker computes this value while the execution runs."""
    return isinstance(value, Mapping) and len(value) == 1 and next(iter(value)) in _EXPRESSIONS


def _is_token(value: Any) -> bool:
    return isinstance(value, str) and _TOKEN.search(value) is not None


@dataclass(frozen=True)
class _Checker:
    """A walk through a request and its shape together."""

    defaults: Mapping[str, Any]
    generated_names: frozenset[str]

    def value(self, shape: Shape, value: Any, path: str) -> Iterator[str]:
        value = self._default_of(value)
        if is_expression(value) or _is_token(value):
            return
        check_kind = getattr(self, f"_{_KINDS.get(shape.type_name, 'anything')}")
        yield from check_kind(shape, value, path)

    def _default_of(self, value: Any) -> Any:
        """Return the default of a parameter that stands alone."""
        name = value["Get"] if is_expression(value) and isinstance(value.get("Get"), str) else ""
        default = (
            self.defaults.get(name.removeprefix("Parameters."))
            if name.startswith("Parameters.")
            else None
        )
        return value if default is None else default

    def structure(
        self, shape: Any, value: Any, path: str, *, is_request: bool = False
    ) -> Iterator[str]:
        if not isinstance(value, Mapping):
            yield f"{path}: must be an object, not {_kind_of(value)}"
            return
        for key in value:
            if key not in shape.members:
                yield (
                    f"{path}.{key}: unknown field of {shape.name}; it has"
                    f" {_some(sorted(shape.members), key)}"
                )
            elif is_request and key in self.generated_names:
                yield f"{path}.{key}: the pipeline makes up this name itself"
        for key in shape.required_members:
            if key not in value and not (is_request and key in self.generated_names):
                yield f"{path}.{key}: required field of {shape.name} is missing"
        for key in value.keys() & shape.members.keys():
            yield from self.value(shape.members[key], value[key], f"{path}.{key}")

    def _structure(self, shape: Any, value: Any, path: str) -> Iterator[str]:
        yield from self.structure(shape, value, path)

    def _list(self, shape: Any, value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, list):
            yield f"{path}: must be a list, not {_kind_of(value)}"
            return
        yield from _outside(shape, len(value), path, "items")
        for index, item in enumerate(value):
            yield from self.value(shape.member, item, f"{path}[{index}]")

    def _map(self, shape: Any, value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, Mapping):
            yield f"{path}: must be an object, not {_kind_of(value)}"
            return
        yield from _outside(shape, len(value), path, "entries")
        for key, item in value.items():
            yield from self.value(shape.key, key, f"{path} key {key!r}")
            yield from self.value(shape.value, item, f"{path}.{key}")

    def _string(self, shape: Any, value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, str):
            yield f"{path}: must be text, not {_kind_of(value)}"
        elif shape.enum and value not in shape.enum:
            yield f"{path}: {value!r} is not one of {_some(shape.enum, value)}"
        else:
            yield from _outside(shape, len(value), path, "characters")
            pattern = _compiled(shape.metadata.get("pattern", ""))
            if pattern and not pattern.fullmatch(value):
                yield f"{path}: {value!r} does not match {pattern.pattern}"

    def _integer(self, shape: Any, value: Any, path: str) -> Iterator[str]:
        if isinstance(value, bool) or not isinstance(value, int):
            yield f"{path}: must be a whole number, not {_kind_of(value)}"
            return
        yield from _outside(shape, value, path)

    def _number(self, shape: Any, value: Any, path: str) -> Iterator[str]:
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield f"{path}: must be a number, not {_kind_of(value)}"
            return
        yield from _outside(shape, value, path)

    def _boolean(self, _: Any, value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, bool):
            yield f"{path}: must be true or false, not {_kind_of(value)}"

    def _anything(self, *_: Any) -> Iterator[str]:
        return iter(())


_KINDS = {kind: kind for kind in ("structure", "list", "map", "string", "integer", "boolean")} | {
    "long": "integer",
    "float": "number",
    "double": "number",
}


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


def _kind_of(value: Any) -> str:
    return "an expression" if is_expression(value) else type(value).__name__


def _some(names: Sequence[str], name: str) -> str:
    """Return the names nearest to `name` first, and how many there are."""
    import difflib

    near = difflib.get_close_matches(name, names, n=_ADVICE_LENGTH, cutoff=0.5) or list(
        names[:_ADVICE_LENGTH]
    )
    rest = len(names) - len(near)
    return ", ".join(near) + (f" and {rest} more" if rest else "")
