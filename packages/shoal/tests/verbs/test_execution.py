"""Start, find and stop executions, against shoal-local's API."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

from shoal.aws.execution import Execution, Pipeline, Step, check_parameters
from shoal.aws.target import Target
from shoal.errors import NotFoundError, ParameterError
from tests.verbs.conftest import make_pipeline

REFUSE: dict[str, Any] = {
    "Name": "Refuse",
    "Type": "Fail",
    "Arguments": {"ErrorMessage": "not today"},
}
PARAMETERS: list[dict[str, Any]] = [
    {"Name": "Epochs", "Type": "Integer", "DefaultValue": 2},
    {"Name": "LearningRate", "Type": "Float", "DefaultValue": 0.1},
    {"Name": "Dry", "Type": "Boolean", "DefaultValue": False},
    {"Name": "Mode", "Type": "String", "DefaultValue": "fast", "EnumValues": ["fast", "slow"]},
]


def gate(met: bool) -> dict[str, Any]:
    """Return a condition that is met or not; if not, the execution fails."""
    condition = {"Type": "GreaterThanOrEqualTo", "LeftValue": 1 if met else 0, "RightValue": 1}
    return {
        "Name": "Gate",
        "Type": "Condition",
        "Arguments": {"Conditions": [condition], "IfSteps": [], "ElseSteps": [REFUSE]},
    }


def ended(pipeline: Pipeline, arn: str) -> Execution:
    deadline = time.monotonic() + 20
    while not (execution := pipeline.look(arn)).has_ended and time.monotonic() < deadline:
        time.sleep(0.05)
    return execution


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"Epoch": "3"}, "declares: Dry, Epochs, LearningRate, Mode"),
        ({"Epochs": "3.5"}, "'3.5' is not of type Integer"),
        ({"LearningRate": "high"}, "'high' is not of type Float"),
        ({"Mode": "medium"}, "'medium' is not one of fast, slow"),
        ({"Dry": "yes"}, r"'yes' is not of type Boolean \(true or false\)"),
    ],
)
def test_an_undeclared_value_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        check_parameters(PARAMETERS, given)


def test_parameters_of_the_declared_types_are_taken() -> None:
    check_parameters(
        PARAMETERS, {"Epochs": "3", "LearningRate": "1e-3", "Mode": "slow", "Dry": "True"}
    )


def test_nothing_is_started_with_a_wrong_parameter(target: Target) -> None:
    pipeline = make_pipeline(target, [gate(met=True)], PARAMETERS)
    with pytest.raises(ParameterError):
        pipeline.start({"Epochs": "many"})
    assert pipeline.executions() == []


def test_an_execution_whose_condition_is_met_succeeds(target: Target) -> None:
    pipeline = make_pipeline(target, [gate(met=True)])
    execution = ended(pipeline, pipeline.start({}))
    steps = [(step.name, step.type) for step in execution.steps]
    assert (execution.status, steps) == ("Succeeded", [("Gate", "Condition")])


def test_a_fail_step_is_the_failed_step_and_gives_the_reason(target: Target) -> None:
    pipeline = make_pipeline(target, [gate(met=False)])
    execution = ended(pipeline, pipeline.start({}))
    assert execution.status == "Failed"
    assert execution.failed_step is not None
    assert execution.failed_step.name == "Refuse"
    assert "not today" in execution.failed_step.failure_reason


def test_the_same_token_starts_one_execution(target: Target) -> None:
    pipeline, token = make_pipeline(target, [gate(met=True)]), uuid.uuid4().hex
    assert pipeline.start({}, token) == pipeline.start({}, token)


def test_an_execution_is_found_by_arn_by_id_and_as_the_latest(target: Target) -> None:
    pipeline = make_pipeline(target, [gate(met=True)])
    arn = pipeline.start({})
    assert {pipeline.find(each) for each in (arn, arn.rpartition("/")[2], "latest")} == {arn}


def test_an_unknown_execution_is_an_error_that_names_the_newest(target: Target) -> None:
    pipeline = make_pipeline(target, [gate(met=True)])
    newest = pipeline.start({}).rpartition("/")[2]
    with pytest.raises(NotFoundError, match=f"no execution 'xyz'; the newest are: {newest}"):
        pipeline.find("xyz")


def test_the_latest_of_none_is_an_error_that_says_how_one_starts(target: Target) -> None:
    with pytest.raises(NotFoundError, match=r"has had no executions; `shoal run` starts one"):
        make_pipeline(target, [gate(met=True)]).find("latest")
    with pytest.raises(NotFoundError, match=r"there is no pipeline nowhere "):
        Pipeline(target, "nowhere").find("latest")


def test_stopping_an_execution_that_has_ended_is_fine(target: Target) -> None:
    pipeline = make_pipeline(target, [gate(met=True)])
    arn = pipeline.start({})
    ended(pipeline, arn)
    pipeline.stop(arn)
    assert pipeline.look(arn).status == "Succeeded"


def test_a_pipeline_that_is_not_deployed_has_no_executions_and_starts_none(target: Target) -> None:
    assert Pipeline(target, "nowhere").executions() == []
    says = r"there is no pipeline nowhere .* `shoal deploy` makes it"
    with pytest.raises(NotFoundError, match=says):
        Pipeline(target, "nowhere").start({})


def test_the_planned_steps_are_those_on_the_way_to_success(target: Target) -> None:
    plan = gate(met=True)
    plan["Arguments"]["IfSteps"] = [{**REFUSE, "Name": "Then"}]
    assert make_pipeline(target, [plan]).planned_steps() == (
        ("Gate", "Condition"),
        ("Then", "Fail"),
    )


def test_a_step_knows_its_outputs_and_what_it_made() -> None:
    made = {"Arn": "a:b", "OutputParameters": [{"Name": "status", "Value": "ok"}]}
    step = Step("S", "Lambda", "Succeeded", metadata={"Lambda": made})
    assert (step.output("status"), step.output("other")) == ("ok", None)
    assert (step.resource("Lambda"), step.resource("Model")) == ("a:b", None)
