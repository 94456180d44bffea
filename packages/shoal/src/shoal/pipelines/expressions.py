"""Values that SageMaker computes while an execution runs, and their JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

ParameterType = Literal["String", "Integer", "Float", "Boolean"]


class Expression:
    """Something that stands for a value in a step's arguments."""

    def to_json(self) -> dict[str, Any]:
        """Return the expression in the definition language."""
        raise NotImplementedError


@dataclass(frozen=True)
class Execution(Expression):
    """A property of the running execution, such as PipelineExecutionId."""

    name: str

    def to_json(self) -> dict[str, Any]:
        return {"Get": f"Execution.{self.name}"}


@dataclass(frozen=True)
class Property(Expression):
    """A field of the step's Describe answer, such as `ModelArtifacts.S3ModelArtifacts`."""

    step: str
    path: str

    def to_json(self) -> dict[str, Any]:
        return {"Get": f"Steps.{self.step}.{self.path}"}


@dataclass(frozen=True)
class PropertyFile(Expression):
    """A value at `path` in a JSON file that a processing step declared as `file`."""

    step: str
    file: str
    path: str

    def to_json(self) -> dict[str, Any]:
        source = {"Get": f"Steps.{self.step}.PropertyFiles.{self.file}"}
        return {"Std:JsonGet": {"PropertyFile": source, "Path": self.path}}


@dataclass(frozen=True)
class Join(Expression):
    """The values as text with `on` between them; the language's only function that makes text."""

    on: str
    values: tuple[Any, ...]

    def to_json(self) -> dict[str, Any]:
        return {"Std:Join": {"On": self.on, "Values": [render(value) for value in self.values]}}


@dataclass(frozen=True)
class Parameter(Expression):
    """A value that a person may change for one execution."""

    name: str
    type: ParameterType
    default: str | int | float | bool
    others: tuple[str | int | float, ...] = ()
    """With any, the parameter takes only the default and these."""

    def to_json(self) -> dict[str, Any]:
        return {"Get": f"Parameters.{self.name}"}

    def declaration(self) -> dict[str, Any]:
        declared: dict[str, Any] = {
            "Name": self.name,
            "Type": self.type,
            "DefaultValue": self.default,
        }
        return declared | ({"EnumValues": [self.default, *self.others]} if self.others else {})

    def as_text(self) -> Expression:
        """Return the parameter where SageMaker wants a string, as in hyperparameters."""
        return self if self.type == "String" else Join("", (self,))


EXECUTION_ID = Execution("PipelineExecutionId")
EXECUTION_ARN = Execution("PipelineExecutionArn")


def render(value: Any) -> Any:
    """Return `value` with the JSON of every expression in it, at any depth."""
    if isinstance(value, Expression):
        return value.to_json()
    if isinstance(value, list | tuple):
        return [render(inner) for inner in value]
    if isinstance(value, Mapping):
        return {key: render(inner) for key, inner in value.items()}
    return value
