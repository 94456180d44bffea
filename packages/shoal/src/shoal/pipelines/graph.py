"""The pipeline as a graph of steps, checked before it is sent.

It checks what SageMaker refuses at CreatePipeline, or worse, at run time. `shoal.pipelines.shapes`
checks each step's arguments.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from shoal.launch.errors import GraphError
from shoal.pipelines.expressions import (
    Expression,
    Parameter,
    Property,
    PropertyFile,
    expressions_in,
)
from shoal.pipelines.steps import Callback, Condition, Lambda, Processing, RetryScope, Step

VERSION = "2020-12-01"
STEP_NAME = re.compile(r"^[A-Za-z0-9\-_]{1,64}$")  # botocore, sagemaker StepName
_PARAMETER_NAME = re.compile(r"^[A-Za-z0-9\-_]{1,256}$")
MAX_PARAMETERS = 200  # botocore, sagemaker ParameterList
MAX_DEFAULT = 4096
_OUTPUT = re.compile(r"^OutputParameters\['(.*)'\]$")
PlacedStep = tuple[Step, tuple[str, ...]]
"""A step and the branches around it, outermost first, as in `("Gate/0",)`."""


@dataclass(frozen=True)
class Pipeline:
    """The parameters that may change per execution, and the steps in the order of the file.

    Steps are values too: `dataclasses.replace` makes a pipeline with other steps.
    """

    parameters: tuple[Parameter, ...]
    steps: tuple[Step, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the definition. Raises GraphError with every mistake."""
        mistakes = list(mistakes_in(self))
        if mistakes:
            raise GraphError(mistakes)
        return {
            "Version": VERSION,
            "Metadata": {},
            "Parameters": [parameter.declaration() for parameter in self.parameters],
            "Steps": [step.to_json() for step in self.steps],
        }

    def step(self, name: str) -> Step:
        """Return the step called `name`, of a branch too."""
        steps = {step.name: step for step, _ in walk(self.steps)}
        if name not in steps:
            raise GraphError([f"there is no step {name}; there are {', '.join(steps)}"])
        return steps[name]

    def parameter(self, name: str) -> Parameter:
        """Return the parameter called `name`."""
        parameters = {each.name: each for each in self.parameters}
        if name not in parameters:
            raise GraphError([f"there is no parameter {name}; there are {', '.join(parameters)}"])
        return parameters[name]


def walk(steps: Sequence[Step], path: tuple[str, ...] = ()) -> Iterator[PlacedStep]:
    """Yield every step with the branches around it."""
    for step in steps:
        yield step, path
        for index, branch in enumerate(step.branches()):
            yield from walk(branch, (*path, f"{step.name}/{index}"))


def mistakes_in(pipeline: Pipeline) -> Iterator[str]:
    """Yield every mistake of `pipeline`, one line each."""
    placed = list(walk(pipeline.steps))
    yield from _parameter_mistakes(pipeline.parameters)
    yield from _name_mistakes([step for step, _ in placed])
    by_name, parameters = (
        {step.name: (step, path) for step, path in placed},
        {parameter.name for parameter in pipeline.parameters},
    )
    needed: dict[str, set[str]] = {}
    for step, _ in placed:
        read = list(expressions_in(step.values()))
        needed[step.name] = {after.step for after in step.dependencies()} | {
            value.step for value in read if isinstance(value, Property | PropertyFile)
        }
        yield from _order_mistakes(step, by_name, needed[step.name])
        yield from _value_mistakes(step, by_name, read, parameters)
        yield from _retry_mistakes(step)
    yield from _cycle_mistakes(placed, needed)


def _parameter_mistakes(parameters: Sequence[Parameter]) -> Iterator[str]:
    if len(parameters) > MAX_PARAMETERS:
        yield f"{len(parameters)} parameters; SageMaker allows {MAX_PARAMETERS}"
    for name, count in Counter(parameter.name for parameter in parameters).items():
        if count > 1:
            yield f"parameter {name} is declared {count} times"
        if not _PARAMETER_NAME.match(name):
            yield f"parameter {name!r}: a name is 1 to 256 letters, digits, - and _"
    allowed = {"String": (str,), "Integer": (int,), "Float": (float, int), "Boolean": (bool,)}
    for parameter in parameters:
        is_bool = isinstance(parameter.default, bool)
        if not isinstance(parameter.default, allowed[parameter.type]) or is_bool is not (
            parameter.type == "Boolean"
        ):
            yield (
                f"parameter {parameter.name}: default {parameter.default!r} is not of type"
                f" {parameter.type}"
            )
        if len(str(parameter.default)) > MAX_DEFAULT:
            yield f"parameter {parameter.name}: its default has more than {MAX_DEFAULT} characters"


def _name_mistakes(steps: Sequence[Step]) -> Iterator[str]:
    for name, count in Counter(step.name for step in steps).items():
        if count > 1:
            yield f"step {name} appears {count} times; a step may stand in one place only"
        if not STEP_NAME.match(name):
            yield f"step {name!r}: a name is 1 to 64 letters, digits, - and _"


def _order_mistakes(
    step: Step, by_name: Mapping[str, PlacedStep], needed: set[str]
) -> Iterator[str]:
    own_path = by_name[step.name][1]
    for name in sorted(needed):
        if name not in by_name:
            yield f"step {step.name}: there is no step {name}"
        elif isinstance(by_name[name][0], Condition):
            yield (
                f"step {step.name}: may not depend on condition {name}; put it into one of its"
                " branches"
            )
        elif own_path[: len(by_name[name][1])] != by_name[name][1]:
            yield f"step {step.name}: {name} runs only in another branch"


def _value_mistakes(
    step: Step, by_name: Mapping[str, PlacedStep], read: Sequence[Expression], parameters: set[str]
) -> Iterator[str]:
    for value in read:
        if isinstance(value, Parameter) and value.name not in parameters:
            yield f"step {step.name}: there is no parameter {value.name}"
        if isinstance(value, Property) and value.step in by_name:
            yield from _output_mistakes(step, by_name[value.step][0], value)
        if isinstance(value, PropertyFile):
            source = by_name.get(value.step, (None, ()))[0]
            files = (
                {file.name for file in source.report_files}
                if isinstance(source, Processing)
                else set()
            )
            if source and value.file not in files:
                yield f"step {step.name}: step {value.step} has no property file {value.file}"


def _output_mistakes(step: Step, source: Step, value: Property) -> Iterator[str]:
    """Only these steps say what they answer; others have what their Describe call answers."""
    output = _OUTPUT.match(value.path)
    if isinstance(source, Lambda | Callback) and output and output[1] not in source.outputs:
        yield (
            f"step {step.name}: step {source.name} has no output {output[1]}; it has"
            f" {', '.join(source.outputs) or 'none'}"
        )


def _retry_mistakes(step: Step) -> Iterator[str]:
    if step.retries and step.retry_scope is RetryScope.NONE:
        yield f"step {step.name}: {step.type} steps take no retry policy"
    kinds = [kind for policy in step.retries for kind in policy.on]
    if step.retry_scope is RetryScope.CREATE_CALL:
        yield from (
            f"step {step.name}: {step.type} steps cannot retry on {kind}"
            for kind in kinds
            if kind.is_about_a_job
        )
    yield from (
        f"step {step.name}: {kind} is in more than one retry policy"
        for kind, count in Counter(kinds).items()
        if count > 1
    )


def _cycle_mistakes(placed: Sequence[PlacedStep], needed: Mapping[str, set[str]]) -> Iterator[str]:
    """Find steps that wait for each other.

    A step inside a branch waits for the condition, and so for everything the condition waits for.
    """
    graph = {
        step.name: needed[step.name] | {branch.rsplit("/", 1)[0] for branch in path}
        for step, path in placed
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield f"the steps wait for each other: {' -> '.join(reversed(error.args[1]))}"
