"""The pipeline as a value: its parameters, and its steps in the order of the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.pipelines.expressions import Parameter
from shoal.pipelines.steps import Step
from shoal.pipelines.validation import graph_rules
from shoal.settings.parsing.errors import DefinitionError


@dataclass(frozen=True)
class Pipeline:
    """The parameters that may change per execution, and the steps in the order of the file.

    Steps are values too: `dataclasses.replace` makes a pipeline with other steps.
    """

    parameters: tuple[Parameter, ...]
    steps: tuple[Step, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the definition. Raises DefinitionError with every mistake."""
        definition = {
            "Version": graph_rules.VERSION,
            "Metadata": {},
            "Parameters": [parameter.declaration() for parameter in self.parameters],
            "Steps": [step.to_json() for step in self.steps],
        }
        graph_rules.check(definition)
        return definition

    def step(self, name: str) -> Step:
        """Return the step called `name`, of a branch too."""
        steps = {step.name: step for step in _walk(self.steps)}
        if name not in steps:
            raise DefinitionError([f"there is no step {name}; there are {', '.join(steps)}"])
        return steps[name]

    def parameter(self, name: str) -> Parameter:
        """Return the parameter called `name`."""
        parameters = {each.name: each for each in self.parameters}
        if name not in parameters:
            raise DefinitionError(
                [f"there is no parameter {name}; there are {', '.join(parameters)}"]
            )
        return parameters[name]


def _walk(steps: Sequence[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        for branch in step.branches():
            yield from _walk(branch)
