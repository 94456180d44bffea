"""Parses and checks the text of a pipeline definition, before anything starts.

What AWS refuses is a ValidationException, what the emulator cannot do an UnknownOperationException
that names it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from shoal_local.sagemaker.errors import invalid, not_emulated, unparsable
from shoal_local.sagemaker.pipelines.expressions import (
    EXECUTION_VARIABLES,
    Parameter,
    parse_parameters,
    references,
    with_wildcards,
)
from shoal_local.sagemaker.resources import KINDS, Kind
from shoal_local.sagemaker.shapes import Anything, Document, input_shape, shape_errors
from shoal_local.tables import read_table

CREATED: Mapping[str, Kind] = {
    "Training": KINDS["training-job"],
    "Processing": KINDS["processing-job"],
    "Transform": KINDS["transform-job"],
    "Tuning": KINDS["hyper-parameter-tuning-job"],
    "Model": KINDS["model"],
    "RegisterModel": KINDS["model-package"],
    "EndpointConfig": KINDS["endpoint-config"],
    "Endpoint": KINDS["endpoint"],
}
"""What the steps create that are one Create call."""
_TYPES = {*CREATED, "Callback", "Condition", "Lambda", "Fail"}
_RETRYABLE = CREATED.keys() - {"Endpoint"}
_SDKS_EXPERIMENT = {
    "ExperimentName": {"Get": "Execution.PipelineName"},
    "TrialName": {"Get": "Execution.PipelineExecutionId"},
}
"""What SageMaker's SDKs write into every definition. It is kept, and there are no experiments here
that it could name.
"""


@dataclass(frozen=True)
class Step:
    """One step. `branch`: the Condition step that must come first, and its outcome; `dependencies`:
    upstream steps and their triggers.
    """

    name: str
    type: str
    document: Document
    branch: tuple[str, bool] | None
    dependencies: tuple[tuple[str, str], ...]

    @property
    def arguments(self) -> Document:
        return dict(self.document.get("Arguments", {}))

    @property
    def property_files(self) -> dict[str, Document]:
        """Return the declarations of property files by their names."""
        files = self.document.get("PropertyFiles", [])
        return {each["PropertyFileName"]: each for each in files}


@dataclass(frozen=True)
class Definition:
    """A definition that the emulator can run."""

    parameters: Mapping[str, Parameter]
    steps: Mapping[str, Step]


def parse(text: str) -> Definition:
    """Return the definition in `text`; raise AwsError for what is wrong or not emulated."""
    try:
        return _definition(_load(text))
    except RecursionError:
        raise unparsable("It is nested too deep") from None


def _definition(document: Document) -> Definition:
    parameters = parse_parameters(document.get("Parameters", []))
    steps: dict[str, Step] = {}
    for step in _walk(document["Steps"], None):
        if step.name in steps:
            raise unparsable(f"The step name {step.name} is used twice")
        steps[step.name] = step
    for step in steps.values():
        _check_references(step, parameters, steps)
    _check_acyclic(steps)
    return Definition(parameters, steps)


@cache
def _schema() -> Draft202012Validator:
    return Draft202012Validator(read_table(Path(__file__).with_name("definition.yaml")))


def _load(text: str) -> Document:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise unparsable(str(error)) from None
    _refuse_other_types(document.get("Steps") if isinstance(document, dict) else None)
    if mistake := best_match(_schema().iter_errors(document)):
        where = mistake.json_path.replace("$", "the definition", 1)
        raise unparsable(f"{where}: {mistake.message}")
    if document.get("MlflowConfig"):
        raise not_emulated("MlflowConfig of a pipeline; leave it out")
    if document.get("PipelineExperimentConfig") not in (None, {}, _SDKS_EXPERIMENT):
        raise not_emulated("PipelineExperimentConfig of a pipeline; leave it out")
    return dict(document)


def _refuse_other_types(steps: object) -> None:
    """Refuse by name the types that other tools write, with keys that the schema lacks."""
    for step in steps if isinstance(steps, list) else ():
        if not isinstance(step, dict):
            continue  # the schema says so
        kind, arguments = step.get("Type"), step.get("Arguments")
        if isinstance(kind, str) and kind not in _TYPES:
            raise not_emulated(
                f"the step type {kind!r} (step {step.get('Name')}); it has"
                f" {', '.join(sorted(_TYPES))}"
            )
        if isinstance(arguments, dict):
            for branch in ("IfSteps", "ElseSteps"):
                _refuse_other_types(arguments.get(branch))


def _walk(documents: list[Document], branch: tuple[str, bool] | None) -> Iterator[Step]:
    for document in documents:
        step = _step(document, branch)
        yield step
        if step.type == "Condition":
            for branch_name, outcome in (("IfSteps", True), ("ElseSteps", False)):
                yield from _walk(step.arguments.get(branch_name, []), (step.name, outcome))


def _step(document: Document, branch: tuple[str, bool] | None) -> Step:
    name, kind, arguments = document["Name"], document["Type"], document.get("Arguments", {})
    if document.get("CacheConfig", {}).get("Enabled"):
        raise not_emulated(f"step caching (CacheConfig of step {name}); leave it out")
    if document.get("RetryPolicies") and kind not in _RETRYABLE:
        raise invalid(f"Steps of type {kind} cannot be retried (step {name})")
    if kind in CREATED:
        check_request(name, CREATED[kind], with_wildcards(arguments))
    return Step(name, kind, document, branch, _dependencies(document))


def check_request(name: str, kind: Kind, document: Any) -> None:
    """Raise AwsError where a step's arguments are not of the shape of its Create call."""
    if not isinstance(document, dict):
        raise unparsable(f"Step {name}: Arguments must be an object, not an expression")
    document = {kind.name_key: Anything(), **document}  # the service may have to make it up
    if errors := list(shape_errors(input_shape(f"Create{kind.noun}"), document, "")):
        raise unparsable(f"Step {name}: {'; '.join(errors)}")


def _dependencies(document: Document) -> tuple[tuple[str, str], ...]:
    """Return the explicit dependencies with their triggers, and the steps that the arguments refer
    to.

    The latter must have completed.
    """
    members = {key: value for key, value in document.items() if key != "DependsOn"}
    if document["Type"] == "Condition":
        members["Arguments"] = {"Conditions": document["Arguments"]["Conditions"]}
    triggers = {each.name: "Completed" for each in references(members) if each.kind == "Steps"}
    for dependency in document.get("DependsOn", []):
        is_name = isinstance(dependency, str)
        named = {"Step": dependency, "Trigger": "Completed"} if is_name else dependency
        triggers.setdefault(named["Step"], named["Trigger"])
    return tuple(triggers.items())


def _check_references(
    step: Step, parameters: Mapping[str, Parameter], steps: Mapping[str, Step]
) -> None:
    for upstream, _ in step.dependencies:
        if upstream not in steps or upstream == step.name:
            raise unparsable(f"Step {step.name} depends on {upstream}, which is not another step")
        if steps[upstream].type == "Condition":
            raise invalid(
                f"Step {step.name} depends on the Condition step {upstream}: put it into a branch"
                " of that step instead"
            )
    for each in references(step.document):
        name = each.name
        if each.kind == "Parameters" and name not in parameters:
            raise unparsable(f"Step {step.name} uses the parameter {name}, which is not defined")
        if each.kind == "Execution" and name not in EXECUTION_VARIABLES:
            raise not_emulated(f"the execution variable {name} (step {step.name})")
        files = steps[name].property_files if name in steps else {}
        if each.property_file and each.property_file not in files:
            raise unparsable(f"Step {step.name} uses {name}{each.path}, which is not defined")


def _check_acyclic(steps: Mapping[str, Step]) -> None:
    upstream = {
        name: [*(each for each, _ in step.dependencies), *(step.branch or ())[:1]]
        for name, step in steps.items()
    }
    try:
        TopologicalSorter(upstream).prepare()
    except CycleError as error:
        cycle = " -> ".join(reversed(error.args[1]))
        raise unparsable(f"Steps depend on each other: {cycle}") from None
