"""`model.fit` with Horovod's Keras part trains as one on two ranks under mpirun."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from local_kit.runtime import find_runtime
from tests.smddp.conftest import LEGACY_KERAS

pytestmark = pytest.mark.nightly

SCRIPT = Path(__file__).with_name("scripts") / "keras_training.py"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    runtime, folder = find_runtime("tensorflow"), tmp_path_factory.mktemp("keras")
    return runtime.answer(runtime.mpi(2, SCRIPT, folder / "answer.json"), folder, LEGACY_KERAS)


def test_ranks_end_with_the_same_weights_and_the_same_average_loss(pair: dict[str, Any]) -> None:
    first, second = pair["weights"]
    assert first == second
    assert len(set(pair["losses"])) == 1


def test_the_model_fits(pair: dict[str, Any]) -> None:
    assert pair["weights"][0] == pytest.approx([2, -1, 1], abs=0.2)


def test_the_learning_rate_grows_from_a_ranks_share_to_all_of_it(pair: dict[str, Any]) -> None:
    assert pair["rates"] == [0.125, 0.15, 0.175, 0.2, 0.2]


def test_a_momentum_that_would_be_corrected_is_refused(pair: dict[str, Any]) -> None:
    assert pair["momentum"] == "UnsupportedError"
