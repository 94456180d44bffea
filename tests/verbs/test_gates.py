"""The gates of an execution, as its definition has them."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.verbs.gates import GateResult, conditions, gates_of
from shoal.verbs.target import Target
from tests.pipelines.inputs import definition
from tests.verbs.conftest import make_pipeline
from tests.verbs.test_execution import ended, gate

LAST = {"Name": "Last", "Type": "Fail", "Arguments": {"ErrorMessage": "no"}}


def test_every_gate_of_shoals_pipeline_is_found() -> None:
    assert list(conditions(definition())) == [
        ("accuracy", "at least", "MinAccuracy"),
        ("rmse", "at most", "MaxRmse"),
    ]


@pytest.mark.parametrize("steps", [[], [LAST | {"Name": "Gate"}], [gate(met=True)]])
def test_a_pipeline_of_another_form_has_no_gates(steps: list[dict[str, Any]]) -> None:
    assert list(conditions({"Steps": steps})) == []


@pytest.mark.parametrize("step", [gate(met=True), LAST], ids=["another gate", "no gate"])
def test_an_execution_of_such_a_pipeline_has_none_either(
    target: Target, step: dict[str, Any]
) -> None:
    pipeline = make_pipeline(target, [step])
    assert gates_of(target, ended(pipeline, pipeline.start({}))) == ()


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (0.9928, "accuracy 0.9928, must be at least 0.98"),
        (None, "accuracy not readable, must be at least 0.98"),
    ],
)
def test_a_gate_is_one_sentence(value: float | None, sentence: str) -> None:
    assert str(GateResult("accuracy", "at least 0.98", value)) == sentence
