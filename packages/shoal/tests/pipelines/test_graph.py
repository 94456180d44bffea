"""A pipeline that SageMaker would refuse, or that would fail at run time, is refused here."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.launch.errors import GraphError
from shoal.pipelines.expressions import EXECUTION_ID, Join, Parameter, Property, PropertyFile
from shoal.pipelines.graph import Pipeline
from shoal.pipelines.retries import CREATE_CALL, JOB
from shoal.pipelines.steps import (
    After,
    Condition,
    Endpoint,
    EndpointConfig,
    Fail,
    GreaterThanOrEqualTo,
    Lambda,
    Model,
    Processing,
    RegisterModel,
    ReportFile,
    Step,
    Training,
    Trigger,
)

THRESHOLD = Parameter("Threshold", "Float", 0.5)


def gate(*if_true: Step, if_false: tuple[Step, ...] = (), name: str = "Gate") -> Condition:
    return Condition(
        name, conditions=(GreaterThanOrEqualTo(1.0, 0.5),), if_true=if_true, if_false=if_false
    )


def mistakes(*steps: Step, parameters: tuple[Parameter, ...] = ()) -> list[str]:
    try:
        Pipeline(parameters, steps or (Training("Train"),)).to_dict()
    except GraphError as error:
        return str(error).splitlines()
    return []


def test_a_small_pipeline_is_written_in_the_definition_language() -> None:
    train = Training("Train", {"Uri": Join("/", ("s3://b", EXECUTION_ID))}, retries=(CREATE_CALL,))
    written = Pipeline(
        (THRESHOLD,),
        (train, Model("Create", {"Data": Property("Train", "A.B")}, depends_on=("Train",))),
    ).to_dict()
    assert written["Parameters"] == [{"Name": "Threshold", "Type": "Float", "DefaultValue": 0.5}]
    assert [step["Type"] for step in written["Steps"]] == ["Training", "Model"]
    assert written["Steps"][0]["Arguments"] == {
        "Uri": {
            "Std:Join": {"On": "/", "Values": ["s3://b", {"Get": "Execution.PipelineExecutionId"}]}
        }
    }
    assert written["Steps"][1]["DependsOn"] == ["Train"]


def test_a_run_condition_is_written_only_where_it_is_not_the_ordinary_one() -> None:
    waiting = Lambda(
        "B", function_arn="arn", depends_on=(After(step="A", trigger=Trigger.ANY), After(step="C"))
    )
    assert waiting.to_json()["DependsOn"] == [{"Step": "A", "Trigger": "Any"}, "C"]


def test_every_mistake_is_reported() -> None:
    nowhere = Training("Train", {"X": Property("Nowhere", "Y"), "Z": THRESHOLD})
    assert mistakes(nowhere) == [
        "step Train: there is no step Nowhere",
        "step Train: there is no parameter Threshold",
    ]


def test_a_step_stands_in_one_place_only() -> None:
    assert mistakes(Training("A"), gate(Training("A"))) == [
        "step A appears 2 times; a step may stand in one place only"
    ]


@pytest.mark.parametrize("name", ["", "with space", "a" * 65, "dots.too"])
def test_step_names_follow_the_apis_pattern(name: str) -> None:
    assert "a Name of 1 to 64 letters, digits, - and _" in mistakes(Training(name))[0]


def test_a_reference_to_an_unknown_step_is_refused() -> None:
    assert mistakes(Training("A", {"X": [{"Y": Property("B", "Z")}]})) == [
        "step A: there is no step B"
    ]


def test_a_dependency_on_an_unknown_step_is_refused() -> None:
    assert mistakes(Training("A", depends_on=("B",))) == ["step A: there is no step B"]


def test_a_reference_to_an_unknown_parameter_is_refused() -> None:
    assert mistakes(Training("A", {"X": Join("", (THRESHOLD,))})) == [
        "step A: there is no parameter Threshold"
    ]


def test_steps_that_wait_for_each_other_are_refused() -> None:
    (line,) = mistakes(Training("A", depends_on=("B",)), Training("B", {"X": Property("A", "Y")}))
    assert line in (
        "the steps wait for each other: A -> B -> A",
        "the steps wait for each other: B -> A -> B",
    )


def test_a_step_before_a_condition_may_not_wait_for_one_inside_it() -> None:
    first = Processing(
        "First", {"X": Property("Inside", "Y")}, report_files=(ReportFile("R", "out", "r.json"),)
    )
    value = PropertyFile("First", "R", "a")
    lines = mistakes(
        first,
        Condition(
            "Gate", conditions=(GreaterThanOrEqualTo(value, 1),), if_true=(Training("Inside"),)
        ),
    )
    assert "step First: Inside runs only in another branch" in lines
    assert any(line.startswith("the steps wait for each other") for line in lines)


def test_branches_may_read_steps_before_the_condition() -> None:
    assert mistakes(Training("A"), gate(Model("B", {"X": Property("A", "Y")}))) == []


def test_a_branch_may_not_read_the_other_branch() -> None:
    lines = mistakes(gate(Training("A"), if_false=(Model("B", {"X": Property("A", "Y")}),)))
    assert lines == ["step B: A runs only in another branch"]


def test_nothing_may_wait_for_a_condition() -> None:
    assert mistakes(gate(), Training("A", depends_on=("Gate",))) == [
        "step A: may not depend on condition Gate; put it into one of its branches"
    ]


def test_a_property_file_must_be_declared_by_its_step() -> None:
    value = PropertyFile("A", "Report", "x")
    lines = mistakes(Processing("A"), Fail("B", message=Join(" ", (value,))))
    assert lines == ["step B: step A has no property file Report"]


@pytest.mark.parametrize("step", [Lambda, Endpoint, EndpointConfig, Fail, Condition])
def test_steps_that_cannot_retry_take_no_policy(step: type[Step]) -> None:
    needed: dict[type[Step], dict[str, Any]] = {
        Lambda: {"function_arn": "arn"},
        Fail: {"message": "x"},
        Condition: {"conditions": ()},
    }
    assert mistakes(step("A", retries=(CREATE_CALL,), **needed.get(step, {}))) == [
        f"step A: {step.type} steps take no retry policy"
    ]


@pytest.mark.parametrize("step", [Model, RegisterModel])
def test_steps_without_a_job_retry_on_the_call_only(step: type[Step]) -> None:
    assert (
        mistakes(step("A", retries=(JOB,)))[0]
        == f"step A: {step.type} steps cannot retry on SageMaker.CAPACITY_ERROR"
    )


def test_an_exception_type_belongs_to_one_policy() -> None:
    assert (
        "Step.SERVICE_FAULT is in more than one retry policy"
        in mistakes(Training("A", retries=(CREATE_CALL, CREATE_CALL)))[0]
    )


def test_parameters_are_declared_once() -> None:
    assert mistakes(parameters=(THRESHOLD, THRESHOLD)) == [
        "parameter Threshold is declared 2 times"
    ]


@pytest.mark.parametrize(
    "parameter",
    [
        Parameter("A", "Integer", 1.5),
        Parameter("A", "String", 1),
        Parameter("A", "Integer", True),
        Parameter("A", "Boolean", 1),
    ],
)
def test_a_default_is_of_its_parameters_type(parameter: Parameter) -> None:
    assert f"is not of type {parameter.type}" in mistakes(parameters=(parameter,))[0]


def test_parameter_names_and_defaults_fit_the_api() -> None:
    lines = mistakes(
        parameters=(Parameter("a b", "String", "x"), Parameter("Long", "String", "x" * 4097))
    )
    assert [line.partition(":")[0] for line in lines] == ["parameter 'a b'", "parameter Long"]


def test_more_parameters_than_the_api_takes_are_refused() -> None:
    lines = mistakes(
        parameters=tuple(Parameter(f"P{number}", "Integer", 1) for number in range(201))
    )
    assert lines == ["201 parameters; SageMaker allows 200"]


def test_what_is_not_there_names_what_is() -> None:
    pipeline = Pipeline((THRESHOLD,), (Training("A"), gate(Training("B"))))
    assert (pipeline.step("B"), pipeline.parameter("Threshold")) == (Training("B"), THRESHOLD)
    with pytest.raises(GraphError, match="there is no step C; there are A, Gate, B"):
        pipeline.step("C")
    with pytest.raises(GraphError, match="there is no parameter D; there are Threshold"):
        pipeline.parameter("D")


def test_an_output_that_a_function_does_not_give_is_refused() -> None:
    seal = Lambda("Seal", function_arn="arn", outputs={"status": "String"})
    lines = mistakes(seal, Model("A", {"X": Property("Seal", "OutputParameters['size']")}))
    assert lines == ["step A: step Seal has no output size; it has status"]
