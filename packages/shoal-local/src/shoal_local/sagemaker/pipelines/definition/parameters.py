"""Pipeline parameters: their declarations, and the typed values of one execution."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal_local.sagemaker.errors import invalid, unparsable
from shoal_local.sagemaker.shapes import Document

_TYPES: Mapping[str, tuple[type, ...]] = {
    "String": (str,),
    "Integer": (int,),
    "Float": (int, float),
    "Boolean": (bool,),
}


@dataclass(frozen=True)
class Parameter:
    """One declared parameter; `default` None means that a start must set a value."""

    name: str
    type: str
    default: Any
    allowed: tuple[Any, ...]

    def check(self, value: Any) -> Any:
        """Return `value` if it has the type and is allowed."""
        has_type = isinstance(value, _TYPES[self.type]) and (
            self.type == "Boolean" or not isinstance(value, bool)
        )
        if not has_type:
            raise invalid(f"Parameter [{self.name}] value {value!r} is not of type {self.type}")
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
