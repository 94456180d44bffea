"""A spoilt definition of a pipeline can run, or is refused before anything is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_kit.values import ANYTHING, TEXT, json_safe, spoilt
from local_kit.wire import Wire, require_refusal_or_success
from shoal.pipelines.checks.check import check
from shoal.settings.loading.loader import load_environment
from tests.repository import ROOT

ROLE = "arn:aws:iam::123456789012:role/pipeline"


def definition() -> dict[str, Any]:
    environment = load_environment("dev", ROOT)
    return check(environment).definition


GOOD = definition()
EXPRESSIONS = st.one_of(
    ANYTHING,
    st.builds(
        lambda path: {"Get": path},
        st.one_of(
            TEXT,
            st.sampled_from(
                ["Steps.Train", "Parameters.Epochs", "Execution.X", "Steps.Evaluate.a[", "Steps."]
            ),
        ),
    ),
    st.builds(lambda value: {"Std:Join": value}, ANYTHING),
    st.builds(lambda value: {"Std:JsonGet": value}, ANYTHING),
)


def deploy(wire: Wire, text: str) -> int:
    """Call CreatePipeline, check that a refused definition leaves nothing, and return the HTTP
    status.
    """
    request = {
        "PipelineName": "spoilt",
        "PipelineDefinition": text,
        "RoleArn": ROLE,
        "ClientRequestToken": "0" * 32,
    }
    answer = wire.sagemaker("CreatePipeline", request)
    require_refusal_or_success(answer, text)
    pipeline = wire.sagemaker("DescribePipeline", {"PipelineName": "spoilt"})
    assert (pipeline.status == 200) == (answer.status == 200)
    if answer.status == 200:
        wire.sagemaker("DeletePipeline", {"PipelineName": "spoilt", "ClientRequestToken": "1" * 32})
    return answer.status


@given(document=spoilt(GOOD, EXPRESSIONS))
def test_a_spoilt_definition_is_deployed_or_refused_whole(wire: Wire, document: Any) -> None:
    deploy(wire, json.dumps(json_safe(document)))


@given(text=st.one_of(st.text(max_size=200), ANYTHING.map(json_safe).map(json.dumps)))
def test_what_is_no_definition_at_all_is_refused(wire: Wire, text: str) -> None:
    assert deploy(wire, text.encode("utf-8", "replace").decode()) == 400


def test_a_definition_that_is_nested_without_end_is_refused(wire: Wire) -> None:
    assert deploy(wire, '{"Version":"2020-12-01","Steps":' + "[" * 5000 + "]" * 5000 + "}") == 400
    inner: dict[str, Any] = {"Name": "Last", "Type": "Fail", "Arguments": {"ErrorMessage": "x"}}
    condition = {"Type": "Equals", "LeftValue": 1, "RightValue": 1}
    for depth in range(150):
        inner = {
            "Name": f"C{depth}",
            "Type": "Condition",
            "Arguments": {"Conditions": [condition], "IfSteps": [inner], "ElseSteps": []},
        }
    assert (
        deploy(
            wire,
            json.dumps(
                {"Version": "2020-12-01", "Metadata": {}, "Parameters": [], "Steps": [inner]}
            ),
        )
        == 400
    )


@pytest.mark.parametrize("name", [{}, {"Name": None}, {"Name": ["Inner"]}])
def test_a_step_of_a_branch_without_a_name_is_refused(wire: Wire, name: dict[str, Any]) -> None:
    inner = {**name, "Type": "Fail", "Arguments": {"ErrorMessage": "x"}}
    condition = {"Type": "Equals", "LeftValue": 1, "RightValue": 1}
    outer = {
        "Name": "C",
        "Type": "Condition",
        "Arguments": {"Conditions": [condition], "IfSteps": [inner], "ElseSteps": []},
    }
    assert (
        deploy(
            wire,
            json.dumps(
                {"Version": "2020-12-01", "Metadata": {}, "Parameters": [], "Steps": [outer]}
            ),
        )
        == 400
    )


def test_an_expression_in_the_place_of_a_steps_arguments_is_refused(wire: Wire) -> None:
    step = {"Name": "Train", "Type": "Training", "Arguments": {"Get": "Parameters.Everything"}}
    parameters = [{"Name": "Everything", "Type": "String"}]
    assert (
        deploy(
            wire,
            json.dumps(
                {"Version": "2020-12-01", "Metadata": {}, "Parameters": parameters, "Steps": [step]}
            ),
        )
        == 400
    )


@given(
    parameters=st.lists(st.fixed_dictionaries({"Name": TEXT, "Value": TEXT}), max_size=3).map(
        json_safe
    )
)
def test_parameters_of_a_start_are_taken_or_refused(
    wire: Wire, parameters: list[dict[str, str]]
) -> None:
    request = {
        "PipelineName": "nobody-deployed-this",
        "PipelineParameters": parameters,
        "ClientRequestToken": "2" * 32,
    }
    require_refusal_or_success(wire.sagemaker("StartPipelineExecution", request), str(parameters))
