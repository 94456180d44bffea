"""Selective execution: which steps run, and from which execution the others' results come.

Sources: API reference, SelectiveExecutionConfig; developer guide, "Selective execution of pipeline
steps"; the words for a missing source: issue 4444 of aws/sagemaker-python-sdk. The other words are
ours. The guide says that selected steps must be connected. Here, as in the reference, no step may
be missing on a path between two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from shoal_local.errors import AwsError
from shoal_local.sagemaker.errors import invalid
from shoal_local.sagemaker.pipelines.definition.definition import Definition, Step
from shoal_local.sagemaker.shapes import Document

_SOURCE_STATUSES = ("Failed", "Succeeded")


def only_selected(definition: Definition, execution: Document) -> Definition:
    """Return the steps that an execution runs or has already: all, if it selects none."""
    if "SelectiveExecutionConfig" not in execution:
        return definition
    names = _selected(execution["SelectiveExecutionConfig"]) | set(execution["_steps"])
    steps = {name: step for name, step in definition.steps.items() if name in names}
    return Definition(definition.parameters, steps)


def reused_steps(
    steps: Mapping[str, Step], config: Document, find: Callable[[str], Document]
) -> dict[str, Document]:
    """Return the steps of the source execution whose results the selected ones need.

    `find(arn)` returns an execution of the pipeline. Raise ValidationException for steps that
    cannot be selected, and for a source without the results.
    """
    names, source_arn = _selected(config), config.get("SourcePipelineExecutionArn")
    _check_selected(steps, names)
    needed = {name: set(_upstream(steps[name])) - names for name in steps if name in names}
    reused = [name for name in steps if any(name in each for each in needed.values())]
    if source_arn is None and reused:
        dependent = [name for name, each in needed.items() if each]
        raise _invalid_source(
            None, f"The selected steps {_list(dependent)} have dependencies on {_list(reused)}"
        )
    if source_arn is None:
        return {}
    source = find(source_arn)
    if source["PipelineExecutionStatus"] not in _SOURCE_STATUSES:
        raise _invalid_source(source_arn, f"It is neither {' nor '.join(_SOURCE_STATUSES)}")
    done = {
        name: each for name, each in source["_steps"].items() if each["StepStatus"] == "Succeeded"
    }
    if missing := [name for name in reused if name not in done]:
        raise _invalid_source(source_arn, f"The steps {_list(missing)} did not succeed there")
    for branch in {steps[name].branch for name in names}:
        if branch and branch[0] in reused and done[branch[0]]["_outputs"]["Outcome"] != branch[1]:
            raise _invalid_source(
                source_arn, f"The step {branch[0]} did not lead to the selected steps there"
            )
    result = {"SelectiveExecutionResult": {"SourcePipelineExecutionArn": source_arn}}
    return {name: done[name] | result for name in reused}


def _selected(config: Document) -> set[str]:
    return {each["StepName"] for each in config["SelectedSteps"]}


def _check_selected(steps: Mapping[str, Step], names: set[str]) -> None:
    if unknown := sorted(names - set(steps)):
        raise invalid(f"Invalid SelectedSteps: {_list(unknown)} are not steps of the pipeline")
    above = {name: _ancestors(steps, name) for name in steps}
    above_selected = {ancestor for name in names for ancestor in above[name]}
    if between := [
        name for name in steps if name in above_selected - names and above[name] & names
    ]:
        raise invalid(
            f"Invalid SelectedSteps: {_list(between)} are on paths between selected steps"
        )


def _upstream(step: Step) -> list[str]:
    return [name for name, _ in step.dependencies] + ([step.branch[0]] if step.branch else [])


def _ancestors(steps: Mapping[str, Step], name: str) -> set[str]:
    ancestors: set[str] = set()
    waiting = _upstream(steps[name])
    while waiting:
        each = waiting.pop()
        if each not in ancestors:
            ancestors.add(each)
            waiting += _upstream(steps[each])
    return ancestors


def _invalid_source(arn: str | None, reason: str) -> AwsError:
    return invalid(f"Invalid SourcePipelineExecutionArn: {arn or 'null'}. {reason}")


def _list(names: Iterable[str]) -> str:
    return f"[{', '.join(names)}]"
