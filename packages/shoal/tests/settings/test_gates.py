"""Gates: limits of what an evaluation measures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.settings.loading.loader import load
from shoal.settings.sections.gates import Direction, Gate, bounds
from tests.settings.environment_file import VALID, lines_with, write

ACCURACY = {"metric": "accuracy", "at_least": 0.9}
RMSE = {"metric": "rmse", "at_most": 60}
COMPARED = {"metric": "rmse", "not_worse_than": "approved"}
LOWER = COMPARED | {"direction": "lower"}


@pytest.mark.parametrize(
    "gates",
    [
        [ACCURACY],
        [ACCURACY, RMSE],
        [{"metric": "log_loss", "at_least": -1e9, "at_most": 1e9}],
        [{"metric": "bits_per_byte", "at_most": 3}, {"metric": "bits_per_byte", "at_least": 0}],
    ],
)
def test_gates_of_any_numbers_are_taken(tmp_path: Path, gates: list[dict[str, Any]]) -> None:
    assert lines_with(tmp_path, {"evaluation": {"gates": gates}}) == []


def test_each_side_of_a_gate_has_a_parameter_of_its_own() -> None:
    gates = (
        Gate(metric="f1_score", at_least=0.5),
        Gate(metric="rmse", at_least=1, at_most=2, not_worse_than="approved"),
    )
    assert [bound.parameter for bound in bounds(gates)] == [
        *("MinF1Score", "MinRmse", "MaxRmse", "RmseTolerance")
    ]


@pytest.mark.parametrize(
    ("gate", "metrics"),
    [
        (LOWER, {}),
        (COMPARED, {"rmse": "lower"}),
        (COMPARED, {"test:rmse": "lower", "train:loss": "higher"}),
        (LOWER | {"by": 0.5}, {"test:rmse": "higher"}),
    ],
)
def test_which_values_are_better_is_said_by_the_gate_or_its_metric(
    tmp_path: Path, gate: dict[str, Any], metrics: dict[str, str]
) -> None:
    defined = {
        name: {"regex": "x=([0-9.]+)", "direction": direction}
        for name, direction in metrics.items()
    }
    changes = {"evaluation": {"gates": [gate]}, "training": {"metrics": defined}}
    environment = load(write(tmp_path, yaml.safe_dump(VALID | changes)))
    assert environment.compared_metrics == {"rmse": Direction.LOWER}


def test_an_old_file_is_told_how_to_write_it_now(tmp_path: Path) -> None:
    (line,) = lines_with(tmp_path, {"evaluation": {"min_accuracy": 0.9}})
    assert line.endswith("write `gates: [{metric: accuracy, at_least: 0.9}]` instead of it")


@pytest.mark.parametrize(
    ("gates", "mistake"),
    [
        ([{"metric": "rmse"}], "evaluation.gates[0]: lets everything pass"),
        ([RMSE | {"at_least": 61}], "no number is at least 61 and at most 60"),
        ([RMSE, RMSE], "evaluation.gates: 2 gates say what rmse is at most"),
        ([RMSE | {"at_most": "60"}], 'gates[0].at_most = "60": must be a number'),
        ([{"metric": "x" * 25, "at_least": 0}], "must have at most 24 characters"),
        ([{"metric": f"m{n}", "at_least": 0} for n in range(5)], "have 5 limits"),
        ([RMSE | {"atmost": 1}], "did you mean `at_most`?"),
        ([COMPARED], "gates[0]: does not say whether a higher or a lower rmse is better"),
        ([LOWER | {"not_worse_than": "newest"}], "\"newest\": must be 'approved'"),
        ([LOWER | {"by": -1}], "gates[0].by = -1: must be at least 0"),
        ([RMSE | {"by": 1}], "gates[0].by = 1.0: is only read with `not_worse_than`"),
        ([RMSE | {"direction": "lower"}], 'direction = "lower": is only read with'),
        ([LOWER, LOWER], "2 gates say what rmse is not worse than approved"),
    ],
)
def test_gates_that_cannot_be_are_one_line(
    tmp_path: Path, gates: list[dict[str, Any]], mistake: str
) -> None:
    (line,) = lines_with(tmp_path, {"evaluation": {"gates": gates}})
    assert mistake in line


def test_a_hyperparameter_may_not_take_a_gates_parameter(tmp_path: Path) -> None:
    changes = {
        "evaluation": {"gates": [RMSE]},
        "training": {"hyperparameters": {"max-rmse": 3}},
    }
    (line,) = lines_with(tmp_path, changes)
    assert "training.hyperparameters.max-rmse" in line
    assert "a gate" in line
