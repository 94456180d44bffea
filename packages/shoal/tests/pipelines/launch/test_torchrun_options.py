"""Hyperparameters that torchrun would swallow are refused before a job pays for them."""

from __future__ import annotations

import pytest

from shoal.launch import resolve
from shoal.settings.parsing.errors import LaunchError
from shoal.settings.sections.hyperparameters import HyperparameterValue
from shoal.settings.settings import Collective, Strategy, Training


@pytest.mark.parametrize("name", ["log", "node", "max", "start"])
@pytest.mark.parametrize(
    "keys",
    [{"strategy": Strategy.TORCHRUN}, {"collective": Collective.ALLGATHER, "instance_count": 2}],
)
def test_an_ambiguous_hyperparameter_is_refused_where_torchrun_starts_the_script(
    name: str, keys: dict[str, object]
) -> None:
    hyperparameters = {name: 1} | ({"backend": "smddp"} if "collective" in keys else {})
    training = Training.model_validate(keys | {"hyperparameters": hyperparameters})
    with pytest.raises(LaunchError, match=f"reaches the script as --{name}, which torchrun"):
        resolve(training, "us-east-1")


def test_other_launchers_and_other_names_pass() -> None:
    assert resolve(Training(hyperparameters={"log": 1}), "us-east-1")
    passing: dict[str, HyperparameterValue] = {
        "log-dir": 1,
        "role": 1,
        "epochs": 1,
        "batch-size": 1,
        "learning-rate": 1,
        "n": 1,
    }
    training = Training(strategy=Strategy.TORCHRUN, hyperparameters=passing)
    assert resolve(training, "us-east-1")
