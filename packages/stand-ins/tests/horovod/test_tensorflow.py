"""TensorFlow 2 scripts written for Horovod train correctly with the stand-in, on two ranks under
mpirun.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from local_kit.runtime import find_runtime
from tests.smddp.conftest import LEGACY_KERAS

pytestmark = pytest.mark.nightly

SCRIPT = Path(__file__).with_name("scripts") / "tensorflow_training.py"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    runtime, folder = find_runtime("tensorflow"), tmp_path_factory.mktemp("horovod")
    return runtime.answer(runtime.mpi(2, SCRIPT, folder / "answer.json"), folder, LEGACY_KERAS)


def test_gradients_of_the_tape_equal_those_of_the_whole_batch(pair: dict[str, Any]) -> None:
    assert pair["gradient_error"] < 1e-6
    assert pair["loss_error"] < 1e-5


def test_all_ranks_hold_the_same_weights_to_the_bit(pair: dict[str, Any]) -> None:
    assert (pair["ranks_equal"], pair["ranks_equal_after_optimizer"]) == (True, True)


def test_ranks_and_sizes_are_those_of_mpirun(pair: dict[str, Any]) -> None:
    assert pair["place"] == [0, 2, 0, 2]
    assert pair["too early"].endswith("Horovod has not been initialized; use hvd.init().")


def test_every_reduction_computes_what_it_says(pair: dict[str, Any]) -> None:
    assert pair["ops"] == {
        "Average": [1.5, 3.0],
        "Sum": [3.0, 6.0],
        "Min": [1.0, 2.0],
        "Max": [2.0, 4.0],
    }
    assert pair["average=False"] == [3.0, 6.0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_reduced_tensor_keeps_its_type(pair: dict[str, Any], dtype: str) -> None:
    assert pair[dtype] == [dtype, [1.5, 3.0]]


def test_compression_gives_the_type_back(pair: dict[str, Any]) -> None:
    name, error = pair["compressed"]
    assert name == "float32"
    assert error < 1e-3


def test_tensors_and_objects_travel(pair: dict[str, Any]) -> None:
    assert (pair["broadcast"], pair["objects"]) == ([2.0, 4.0], [{"rank": 1}, [0, 1]])


@pytest.mark.parametrize(
    ("name", "error"), [("adasum", "UnsupportedError"), ("no such rank", "HorovodLocalError")]
)
def test_wrong_arguments_are_refused(pair: dict[str, Any], name: str, error: str) -> None:
    assert pair[name].startswith(f"{error}: ")


def test_the_tensorflow_part_does_not_import_torch(pair: dict[str, Any]) -> None:
    assert pair["torch"] is False
