"""The pipeline as a graph of steps, checked before it is sent.

It checks what SageMaker refuses at CreatePipeline, or worse, at run time. `shoal.pipelines.shapes`
checks each step's arguments.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from shoal.launch.errors import GraphError
from shoal.pipelines import tree
from shoal.pipelines.expressions import (
    Expression,
    Parameter,
    Property,
    PropertyFile,
    expressions_in,
)
from shoal.pipelines.steps import After, Callback, Condition, Lambda, Processing, RetryScope, Step
from shoal.pipelines.tree import PlacedStep, conditions_around, needed_steps, walk

VERSION = "2020-12-01"
STEP_NAME = re.compile(r"^[A-Za-z0-9\-_]{1,64}$")  # botocore, sagemaker StepName
_PARAMETER_NAME = re.compile(r"^[A-Za-z0-9\-_]{1,256}$")
MAX_PARAMETERS = 200  # botocore, sagemaker ParameterList
MAX_DEFAULT = 4096
_OUTPUT = re.compile(r"^OutputParameters\['(.*)'\]$")


@dataclass(frozen=True)
class Pipeline:
    """The parameters that may change per execution, and the steps in the order of the file.

    `insert_before`, `insert_after`, `replace` and `without` return a new pipeline, and keep the
    order in which the other steps wait for each other. They raise GraphError.
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

    def insert_before(self, name: str, step: Step) -> Pipeline:
        """Let `step` wait for what the step `name` waits for, and that one for `step`."""
        new = tree.waiting_for(step, self._before(self.step(name)))

        def change(each: Step) -> tuple[Step, ...]:
            if each.name != name:
                return (each,)
            return new, tree.waiting_for(each, (After(step=step.name),))

        return self._edited(tree.changed(self.steps, change), (step,), ())

    def insert_after(self, name: str, step: Step) -> Pipeline:
        """Let `step` wait for the step `name`, and what follows on that one for `step`.

        No step can wait for a condition: insert it into a branch, before or after a step there.
        """
        if isinstance(self.step(name), Condition):
            raise GraphError([f"nothing can wait for the condition {name}; name a step inside it"])
        new = tree.waiting_for(step, (After(step=name),))
        followers = tree.followers(self.steps, name)

        def change(each: Step) -> tuple[Step, ...]:
            if each.name == name:
                return each, new
            if each.name not in followers:
                return (each,)
            after = After(step=step.name, trigger=tree.trigger_of(each, name))
            return (tree.waiting_for(each, (after,)),)

        return self._edited(tree.changed(self.steps, change), (step,), ())

    def replace(self, name: str, step: Step) -> Pipeline:
        """Put `step` into the place of the step `name`: it waits for the same steps.

        What waits for the step `name` waits for `step`. What reads results of the step `name`
        needs a `step` with the same name.
        """
        old = self.step(name)
        new = tree.waiting_for(step, self._before(old))

        def change(each: Step) -> tuple[Step, ...]:
            return (new if each.name == name else tree.renamed(each, name, step.name),)

        return self._edited(tree.changed(self.steps, change), (step,), _names_in(old))

    def without(self, *names: str) -> Pipeline:
        """Leave out the steps called `names`, a condition's with its branches.

        What waited for them waits for what they waited for.
        """
        gone = [inner for name in names for inner in _names_in(self.step(name))]

        def change(each: Step) -> tuple[Step, ...]:
            return () if each.name in gone else (self._bridged(each, gone),)

        return self._edited(tree.changed(self.steps, change), (), gone)

    def _before(self, step: Step) -> list[After]:
        """Return what `step` waits for, without what those steps wait for themselves."""
        names = tree.last_of(self.steps, needed_steps(step))
        return [After(step=name, trigger=tree.trigger_of(step, name)) for name in names]

    def _bridged(self, step: Step, gone: Collection[str]) -> Step:
        kept = tree.independent_of(step, gone)
        for after in step.dependencies():
            if after.step in gone:
                left = tree.left_of(self.steps, (after.step,), gone)
                earlier = tree.last_of(self.steps, left)
                kept = tree.waiting_for(
                    kept, [After(step=name, trigger=after.trigger) for name in earlier]
                )
        return kept

    def _edited(
        self, steps: tuple[Step, ...], new: tuple[Step, ...], gone: Collection[str]
    ) -> Pipeline:
        """Return the pipeline with `steps`, and with the parameters of the `new` ones.

        Raises GraphError for a name that is there twice, and for what reads a step that is `gone`.
        """
        names = Counter(step.name for step, _ in walk(steps))
        broken = [
            f"{step.name} reads {value.step}.{_read(value)}"
            for step, _ in walk(steps)
            for value in expressions_in(step.values())
            if isinstance(value, Property | PropertyFile)
            and value.step in gone
            and value.step not in names
        ]
        if twice := [name for name, count in names.items() if count > 1]:
            kept = ", ".join(step.name for step, _ in walk(self.steps))
            raise GraphError([f"there is a step {twice[0]} already; there are {kept}"])
        if broken:
            lost = ", ".join(name for name in gone if name not in names)
            read = ", ".join(dict.fromkeys(broken))
            raise GraphError([f"{lost} cannot be left out: {read}; change these steps too"])
        return Pipeline((*self.parameters, *self._undeclared(new)), steps)

    def _undeclared(self, steps: Sequence[Step]) -> list[Parameter]:
        """Return the parameters of `steps` that the pipeline does not declare yet."""
        read = (value for step, _ in walk(steps) for value in expressions_in(step.values()))
        declared = {each.name: each for each in self.parameters}
        new = dict.fromkeys(value for value in read if isinstance(value, Parameter))
        for each in new:
            if declared.setdefault(each.name, each) != each:
                known = declared[each.name].declaration()
                raise GraphError([f"parameter {each.name} is declared already, as {known}"])
        return [each for each in new if each not in self.parameters]


def _names_in(step: Step) -> list[str]:
    return [inner.name for inner, _ in walk((step,))]


def _read(value: Property | PropertyFile) -> str:
    return value.path if isinstance(value, Property) else f"{value.file}.{value.path}"


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
        needed[step.name] = needed_steps(step, read)
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
    graph = {step.name: needed[step.name] | conditions_around(path) for step, path in placed}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield f"the steps wait for each other: {' -> '.join(reversed(error.args[1]))}"
