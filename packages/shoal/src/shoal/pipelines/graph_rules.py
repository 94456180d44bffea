"""The rules of the graph of any definition: what SageMaker refuses at CreatePipeline, or worse, at
run time. `shoal.pipelines.shapes` checks each step's arguments.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from shoal.pipelines.limits import BRANCHES, objects_in
from shoal.settings.parsing.errors import DefinitionError

VERSION = "2020-12-01"
MAX_PARAMETERS = 200  # botocore, sagemaker ParameterList
MAX_DEFAULT = 4096
_STEP_NAME = re.compile(r"^[A-Za-z0-9\-_]{1,64}$")  # botocore, sagemaker StepName
_PARAMETER_NAME = re.compile(r"^[A-Za-z0-9\-_]{1,256}$")
_OUTPUT = re.compile(r"^OutputParameters\['(.*)'\]$")
_TYPES = {"String": (str,), "Integer": (int,), "Float": (float, int), "Boolean": (bool,)}
_RETRY_JOBS = ("Training", "Processing", "Transform", "Tuning")
_RETRY_CALLS = ("RegisterModel", "Model")
"""Step types that take retry policies, for their job or for their Create call only."""


def check(definition: Mapping[str, Any]) -> None:
    """Raise DefinitionError with every mistake, one line each."""
    mistakes = list(_form_mistakes(definition)) or list(_graph_mistakes(definition))
    if mistakes:
        raise DefinitionError(mistakes)


def _form_mistakes(definition: Mapping[str, Any]) -> Iterator[str]:
    if definition.get("Version") != VERSION:
        yield f"Version must be {VERSION}"
    parameters = definition.get("Parameters", [])
    if not isinstance(parameters, list) or not all(
        isinstance(each, Mapping) and isinstance(each.get("Name"), str) for each in parameters
    ):
        yield "Parameters must be a list of objects with Name and Type"
    steps = definition.get("Steps")
    if not isinstance(steps, list) or not steps:
        yield "Steps must be a list with at least one step"
    else:
        yield from _steps_mistakes(steps)


def _steps_mistakes(steps: list[Any]) -> Iterator[str]:
    for step in steps:
        if not isinstance(step, Mapping) or not _STEP_NAME.match(str(step.get("Name", ""))):
            yield (
                "every step is an object with a Name of 1 to 64 letters, digits, - and _:"
                f" {str(step)[:60]}"
            )
            continue
        name, arguments = step["Name"], step.get("Arguments")
        if not isinstance(step.get("Type"), str) or not isinstance(arguments, Mapping):
            yield f"step {name}: a step has a Type and Arguments"
        elif step["Type"] == "Condition":
            branches: list[Any] = [arguments.get(branch) for branch in BRANCHES]
            if not all(isinstance(branch, list) for branch in branches):
                yield f"step {name}: a Condition has the lists IfSteps and ElseSteps"
                continue
            yield from _steps_mistakes([inner for branch in branches for inner in branch])


@dataclass(frozen=True)
class _Placed:
    """A step, the branches around it, outermost first, as in `("Gate/0",)`, and what it reads."""

    step: Mapping[str, Any]
    path: tuple[str, ...]
    references: tuple[str, ...]
    """As in `Steps.Train.TrainingJobName` and `Parameters.Epochs`."""

    @property
    def needed(self) -> set[str]:
        """The steps that must have ended before it: the named ones, and those that it reads."""
        named = (
            str(each.get("Step") if isinstance(each, Mapping) else each)
            for each in self.step.get("DependsOn", ())
        )
        read = (each.split(".")[1] for each in self.references if each.startswith("Steps."))
        return {*named, *read}


def _placed(steps: Sequence[Mapping[str, Any]], *path: str) -> Iterator[_Placed]:
    for step in steps:
        branches = BRANCHES if step["Type"] == "Condition" else ()
        own = {key: value for key, value in step["Arguments"].items() if key not in branches}
        references = references_in([own, step.get("PropertyFiles")])
        yield _Placed(step, path, tuple(references))
        for index, branch in enumerate(branches):
            yield from _placed(step["Arguments"][branch], *path, f"{step['Name']}/{index}")


def references_in(value: Any) -> Iterator[str]:
    """Yield what is read at any depth, as in `Steps.Train.TrainingJobName`."""
    return (each["Get"] for each in objects_in(value) if isinstance(each.get("Get"), str))


def _graph_mistakes(definition: Mapping[str, Any]) -> Iterator[str]:
    parameters = definition.get("Parameters", [])
    yield from _parameter_mistakes(parameters)
    placed = list(_placed(definition["Steps"]))
    for name, count in Counter(each.step["Name"] for each in placed).items():
        if count > 1:
            yield f"step {name} appears {count} times; a step may stand in one place only"
    by_name = {each.step["Name"]: each for each in placed}
    declared = {each["Name"] for each in parameters}
    for each in placed:
        mistakes = [*_order_mistakes(each, by_name), *_value_mistakes(each, by_name, declared)]
        for mistake in (*mistakes, *_retry_mistakes(each.step)):
            yield f"step {each.step['Name']}: {mistake}"
    # a step inside a branch waits for the condition, and so for all that the condition waits for
    graph = {
        name: each.needed | {branch.rsplit("/", 1)[0] for branch in each.path}
        for name, each in by_name.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield f"the steps wait for each other: {' -> '.join(reversed(error.args[1]))}"


def _parameter_mistakes(parameters: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if len(parameters) > MAX_PARAMETERS:
        yield f"{len(parameters)} parameters; SageMaker allows {MAX_PARAMETERS}"
    for name, count in Counter(each["Name"] for each in parameters).items():
        if count > 1:
            yield f"parameter {name} is declared {count} times"
        if not _PARAMETER_NAME.match(name):
            yield f"parameter {name!r}: a name is 1 to 256 letters, digits, - and _"
    for each in parameters:
        kind, default = each.get("Type"), each.get("DefaultValue")
        is_bool = isinstance(default, bool)
        if default is not None and (
            not isinstance(default, _TYPES.get(str(kind), object)) or is_bool != (kind == "Boolean")
        ):
            yield f"parameter {each['Name']}: default {default!r} is not of type {kind}"
        if len(str(default)) > MAX_DEFAULT:
            yield f"parameter {each['Name']}: its default has more than {MAX_DEFAULT} characters"


def _order_mistakes(own: _Placed, by_name: Mapping[str, _Placed]) -> Iterator[str]:
    for name in sorted(own.needed):
        if name not in by_name:
            yield f"there is no step {name}"
        elif by_name[name].step["Type"] == "Condition":
            yield f"may not depend on condition {name}; put it into one of its branches"
        elif own.path[: len(by_name[name].path)] != by_name[name].path:
            yield f"{name} runs only in another branch"


def _value_mistakes(
    own: _Placed, by_name: Mapping[str, _Placed], parameters: set[str]
) -> Iterator[str]:
    """Yield the parameters, outputs and property files that are not there. Only functions and
    callbacks say what they answer; others have what their Describe call answers.
    """
    for reference in own.references:
        kind, _, rest = reference.partition(".")
        if kind == "Parameters" and rest not in parameters:
            yield f"there is no parameter {rest}"
        name, _, path = rest.partition(".")
        if kind != "Steps" or name not in by_name:
            continue
        source = by_name[name].step
        files = [each.get("PropertyFileName") for each in _objects(source.get("PropertyFiles"))]
        file = path.removeprefix("PropertyFiles.")
        if path.startswith("PropertyFiles.") and file not in files:
            yield f"step {name} has no property file {file}"
        answers = _objects(source.get("OutputParameters"))
        outputs = [str(each.get("OutputName")) for each in answers]
        output = _OUTPUT.match(path)
        if source["Type"] in ("Lambda", "Callback") and output and output[1] not in outputs:
            known = ", ".join(outputs) or "none"
            yield f"step {name} has no output {output[1]}; it has {known}"


def _objects(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a list, which a user may have written otherwise."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _retry_mistakes(step: Mapping[str, Any]) -> Iterator[str]:
    kind, policies = step["Type"], _objects(step.get("RetryPolicies"))
    errors = [str(error) for policy in policies for error in policy.get("ExceptionType") or ()]
    if policies and kind not in (*_RETRY_JOBS, *_RETRY_CALLS):
        yield f"{kind} steps take no retry policy"
    elif kind in _RETRY_CALLS:
        for error in errors:
            if error.startswith("SageMaker."):  # about a job
                yield f"{kind} steps cannot retry on {error}"
    for error, count in Counter(errors).items():
        if count > 1:
            yield f"{error} is in more than one retry policy"
