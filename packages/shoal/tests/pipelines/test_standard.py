"""The standard pipeline is a value: steps are inserted, replaced and left out, and whatever would
break says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pipelines.training import training_pipeline as standard
from shoal.launch import launch_of
from shoal.launch.errors import GraphError
from shoal.pipelines.expressions import Parameter, Property
from shoal.pipelines.graph import Pipeline
from shoal.pipelines.steps import After, Condition, Fail, Lambda, Processing, Training, Trigger
from tests.pipelines.inputs import definition, environment, infrastructure
from tests.pipelines.test_graph import gate

NAMES = "Train, Evaluate, Gate, Seal, Register, CreateModel, CreateEndpointConfig, CreateEndpoint"


def shoals() -> Pipeline:
    return standard(environment(), infrastructure(), launch_of(environment()))


def waits(pipeline: Pipeline, name: str) -> list[str]:
    """Return what a step names among its dependencies."""
    pipeline.to_dict()
    return [each.step for each in pipeline.step(name).dependencies()]


def mistake(edit: Callable[[Pipeline], Pipeline]) -> str:
    with pytest.raises(GraphError) as caught:
        edit(shoals()).to_dict()
    (line,) = caught.value.mistakes
    return line


def call(name: str = "Load", **arguments: object) -> Lambda:
    return Lambda(name, arguments, function_arn="arn")


def test_the_shipped_definition_is_that_of_the_value() -> None:
    assert shoals().to_dict() == definition()


def test_an_edit_leaves_the_pipeline_as_it_was() -> None:
    before = shoals()
    before.insert_after("Train", call())
    assert before == shoals()


def test_what_waited_for_a_step_waits_for_the_one_that_is_inserted_after_it() -> None:
    pipeline = shoals().insert_after("Evaluate", call())
    assert [step.name for step in pipeline.steps] == ["Train", "Evaluate", "Load", "Gate"]
    assert waits(pipeline, "Load") == ["Evaluate"]
    assert waits(pipeline, "Gate") == ["Load"]
    assert waits(pipeline, "Seal") == []


def test_only_the_first_of_those_that_waited_names_the_new_step() -> None:
    pipeline = shoals().insert_after("Seal", call())
    assert waits(pipeline, "Register") == ["Load"]
    assert waits(pipeline, "CreateModel") == ["Register"]
    assert waits(shoals().insert_after("Train", call()), "Seal") == []


def test_a_step_inserted_after_one_in_a_branch_stands_in_that_branch() -> None:
    pipeline = shoals().insert_after("SmokeTest", call())
    branch = pipeline.step("Gate")
    assert isinstance(branch, Condition)
    assert [step.name for step in branch.if_true][-3:] == ["SmokeTest", "Load", "Teardown"]
    assert waits(pipeline, "Teardown") == ["SmokeTest", "Load"]


def test_a_step_that_waits_for_any_end_also_waits_for_any_end_of_the_new_step() -> None:
    teardown = replace(
        shoals().step("Teardown"), depends_on=(After(step="SmokeTest", trigger=Trigger.ANY),)
    )
    pipeline = shoals().replace("Teardown", teardown).insert_after("SmokeTest", call())
    assert [each.trigger for each in pipeline.step("Teardown").dependencies()] == ["Any", "Any"]


def test_a_step_waits_for_the_one_that_is_inserted_before_it() -> None:
    pipeline = shoals().insert_before("Train", call())
    assert [step.name for step in pipeline.steps] == ["Load", "Train", "Evaluate", "Gate"]
    assert (waits(pipeline, "Load"), waits(pipeline, "Train")) == ([], ["Load"])


def test_a_step_inserted_before_another_waits_for_what_that_one_waits_for() -> None:
    pipeline = shoals().insert_before("Register", call())
    assert waits(pipeline, "Load") == ["Seal"]


def test_a_step_can_be_inserted_before_a_condition_and_not_after_it() -> None:
    assert waits(shoals().insert_before("Gate", call()), "Gate") == ["Load"]
    assert mistake(lambda it: it.insert_after("Gate", call())) == (
        "nothing can wait for the condition Gate; name a step inside it"
    )


def test_a_replaced_step_keeps_its_place_and_its_readers() -> None:
    train = shoals().step("Train")
    larger = replace(train, arguments={**train.arguments, "EnableNetworkIsolation": True})
    written = shoals().replace("Train", larger).to_dict()["Steps"][0]
    assert written == definition()["Steps"][0] | {
        "Arguments": {**definition()["Steps"][0]["Arguments"], "EnableNetworkIsolation": True}
    }


def test_a_step_of_another_name_waits_and_is_waited_for_like_the_one_it_replaces() -> None:
    pipeline = shoals().replace("SmokeTest", call())
    assert (waits(pipeline, "Load"), waits(pipeline, "Teardown")) == (["CreateEndpoint"], ["Load"])


def test_a_step_whose_results_are_read_is_replaced_under_its_own_name_only() -> None:
    assert mistake(lambda it: it.replace("CreateEndpoint", call())) == (
        "CreateEndpoint cannot be left out: SmokeTest reads CreateEndpoint.EndpointName; change"
        " these steps too"
    )


def test_without_a_step_the_next_one_waits_for_what_it_waited_for() -> None:
    pipeline = shoals().without("CreateEndpointConfig", "CreateEndpoint", "SmokeTest")
    assert waits(pipeline, "Teardown") == ["CreateModel"]
    assert waits(shoals().without("Register"), "CreateModel") == []  # it reads Seal's results


def test_a_step_that_others_read_is_not_left_out_and_says_which() -> None:
    assert mistake(lambda it: it.without("Seal", "SmokeTest", "Register")) == (
        "Seal, SmokeTest, Register cannot be left out: CreateModel reads"
        " Seal.OutputParameters['model_data_url']; change these steps too"
    )
    assert "Gate reads Evaluate.EvaluationReport.metrics.accuracy.value, " in mistake(
        lambda it: it.without("Evaluate")
    )


def test_a_condition_goes_with_its_branches() -> None:
    assert [step["Name"] for step in shoals().without("Gate").to_dict()["Steps"]] == [
        "Train",
        "Evaluate",
    ]


@pytest.mark.parametrize(
    "edit",
    [
        lambda it: it.step("Evalute"),
        lambda it: it.insert_after("Evalute", call()),
        lambda it: it.insert_before("Evalute", call()),
        lambda it: it.replace("Evalute", call()),
        lambda it: it.without("Train", "Evalute"),
    ],
)
def test_a_step_that_is_not_there_names_those_that_are(
    edit: Callable[[Pipeline], Pipeline],
) -> None:
    assert mistake(edit).startswith(f"there is no step Evalute; there are {NAMES}")


def test_a_name_is_given_once() -> None:
    assert mistake(lambda it: it.insert_after("Train", call("Seal"))).startswith(
        f"there is a step Seal already; there are {NAMES}"
    )
    assert mistake(lambda it: it.replace("SmokeTest", call("Seal"))).startswith(
        "there is a step Seal already"
    )


def test_a_new_step_brings_its_parameters() -> None:
    whom = Parameter("Whom", "String", "Ada")
    declared = shoals().insert_after("Train", call(whom=whom)).parameters
    assert declared == (*shoals().parameters, whom)


def test_a_new_step_may_read_a_parameter_of_the_pipeline() -> None:
    epochs = shoals().parameter("Epochs")
    assert shoals().insert_after("Train", call(epochs=epochs)).parameters == shoals().parameters


def test_a_parameter_is_not_declared_twice() -> None:
    epochs = Parameter("Epochs", "Integer", 7)
    assert mistake(lambda it: it.insert_after("Train", call(epochs=epochs))) == (
        "parameter Epochs is declared already, as"
        " {'Name': 'Epochs', 'Type': 'Integer', 'DefaultValue': 2}"
    )


def test_an_unknown_parameter_names_those_that_are_there() -> None:
    with pytest.raises(GraphError, match="there is no parameter Epoch; there are TrainDataUri, "):
        shoals().parameter("Epoch")


def test_steps_that_would_wait_for_each_other_are_refused() -> None:
    report = Property("Evaluate", "ProcessingJobName")
    assert "the steps wait for each other" in mistake(
        lambda it: it.insert_after("Train", call(report=report))
    )


def test_an_output_that_a_function_does_not_give_is_refused() -> None:
    size = Property("Seal", "OutputParameters['size']")
    assert mistake(lambda it: it.insert_after("Seal", call(size=size))) == (
        "step Load: step Seal has no output size; it has status, model_data_url, archive_sha256,"
        " content_sha256"
    )


def test_a_condition_with_steps_can_be_inserted() -> None:
    stop = gate(Training("More"), if_false=(Fail("TooFew", message="too few"),), name="Enough")
    pipeline = shoals().insert_before("Train", Processing("Count"))
    assert mistake(lambda it: it.insert_before("Train", stop)) == (
        "step Train: may not depend on condition Enough; put it into one of its branches"
    )
    assert waits(pipeline.replace("Gate", stop), "Enough") == ["Evaluate"]
