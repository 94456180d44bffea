"""Gates: limits of what an evaluation measures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.settings.loading.loader import load
from shoal.settings.sections.evaluation import Direction, Gate, bounds
from tests.settings.environment_file import VALID, write

COMPARED = {"metric": "rmse", "not_worse_than": "approved"}
LOWER = COMPARED | {"direction": "lower"}


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
