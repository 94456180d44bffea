"""The pipeline as a graph of steps, checked before it is sent.

It checks what SageMaker refuses at CreatePipeline, or worse, at run time. `pipelines.shapes` checks
each step's arguments.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from pipelines.errors import GraphError
from pipelines.expressions import Expression, Parameter, Property, PropertyFile, expressions_in
from pipelines.steps import Condition, Processing, RetryScope, Step

VERSION = "2020-12-01"
STEP_NAME = re.compile(r"^[A-Za-z0-9\-_]{1,64}$")  # botocore, sagemaker StepName
_PARAMETER_NAME = re.compile(r"^[A-Za-z0-9\-_]{1,256}$")
MAX_PARAMETERS = 200  # botocore, sagemaker ParameterList
MAX_DEFAULT = 4096
PlacedStep = tuple[Step, tuple[str, ...]]
"""A step and the branches around it, outermost first, as in `("Gate/0",)`."""


@dataclass(frozen=True)
class Pipeline:
    """The parameters that may change per execution, and the steps in the order of the file."""

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
        needed[step.name] = _needed_steps(step, read)
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


def _needed_steps(step: Step, read: Sequence[Expression]) -> set[str]:
    """Return the names of the steps that must have ended before `step`.

    These are the named ones and those whose results it reads.
    """
    return {value.step for value in read if isinstance(value, Property | PropertyFile)} | {
        each.step for each in step.dependencies()
    }


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
        if isinstance(value, PropertyFile):
            source = by_name.get(value.step, (None, ()))[0]
            files = (
                {file.name for file in source.report_files}
                if isinstance(source, Processing)
                else set()
            )
            if source and value.file not in files:
                yield f"step {step.name}: step {value.step} has no property file {value.file}"


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
    around = {step.name: {place.rsplit("/", 1)[0] for place in path} for step, path in placed}
    graph = {step.name: needed[step.name] | around[step.name] for step, _ in placed}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield f"the steps wait for each other: {' -> '.join(reversed(error.args[1]))}"
