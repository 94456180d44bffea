"""PyTorch scripts written for Horovod train correctly with the stand-in, on two ranks under
mpirun.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from local_kit.runtime import find_runtime

pytestmark = pytest.mark.nightly

SCRIPT = Path(__file__).with_name("scripts") / "torch_training.py"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    runtime, folder = find_runtime(), tmp_path_factory.mktemp("horovod")
    return runtime.answer(runtime.mpi(2, SCRIPT, folder / "answer.json"), folder)


def test_gradients_and_weights_equal_those_of_the_whole_batch(pair: dict[str, Any]) -> None:
    assert pair["gradient_error"] < 1e-6
    assert pair["weight_error"] < 1e-5


def test_all_ranks_hold_the_same_weights_to_the_bit(pair: dict[str, Any]) -> None:
    assert (pair["ranks_equal"], pair["ranks_equal_after_clipping"]) == (True, True)


def test_parameters_come_from_the_root_rank(pair: dict[str, Any]) -> None:
    assert pair["parameters"]


def test_optimizer_settings_and_state_come_from_the_root_rank(pair: dict[str, Any]) -> None:
    assert (pair["learning_rate"], pair["optimizer_state"]) == (0.01, True)


def test_the_distributed_optimizer_has_no_state_as_in_horovod(pair: dict[str, Any]) -> None:
    assert pair["state"] == [2, 0]


def test_a_state_is_made_by_a_step_before_it_is_sent_as_in_horovod(pair: dict[str, Any]) -> None:
    assert pair["filled"] == [1.0, 1.0]


def test_ranks_and_sizes_are_those_of_mpirun(pair: dict[str, Any]) -> None:
    assert (pair["place"], pair["initialized"]) == ([0, 2, 0, 2], False)
    assert pair["too early"].endswith("Horovod has not been initialized; use hvd.init().")


def test_every_reduction_computes_what_it_says(pair: dict[str, Any]) -> None:
    assert pair["ops"] == {
        "Average": [1.5, 3.0],
        "Sum": [3.0, 6.0],
        "Min": [1.0, 2.0],
        "Max": [2.0, 4.0],
    }
    assert (pair["average=False"], pair["in place"], pair["grouped"]) == (
        [3.0, 6.0],
        [1.5, 3.0],
        [[3.0, 6.0], [1]],
    )


@pytest.mark.parametrize("dtype", ["torch.float16", "torch.bfloat16", "torch.float64"])
def test_a_reduced_tensor_keeps_its_type(pair: dict[str, Any], dtype: str) -> None:
    assert pair[dtype] == [dtype, [1.5, 3.0]]


def test_tensors_and_objects_travel(pair: dict[str, Any]) -> None:
    assert (pair["gathered"], pair["broadcast"]) == ([0, 1, 1], [2.0, 4.0])
    assert pair["objects"] == [{"rank": 1}, [0, 1]]


def test_a_gradient_that_one_rank_lacks_counts_as_zero(pair: dict[str, Any]) -> None:
    assert pair["missing gradient"] == [[1.0, 1.0]]  # rank 0 has 2


def test_zero_grad_between_backward_and_step_is_refused_as_horovod_does(
    pair: dict[str, Any],
) -> None:
    assert pair["zero_grad"].startswith(
        "AssertionError: optimizer.zero_grad() was called after loss.backward()"
    )


def test_zero_grad_takes_no_argument_as_horovods(pair: dict[str, Any]) -> None:
    assert pair["set_to_none"].startswith("TypeError: ")


def test_more_backward_passes_than_announced_are_refused_as_horovod_does(
    pair: dict[str, Any],
) -> None:
    assert pair["two passes"].startswith(
        "AssertionError: Gradients were computed more than backward_passes_per_step times"
    )


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("both", "ValueError"),
        ("names", "ValueError"),
        ("adasum", "UnsupportedError"),
        ("no such rank", "HorovodLocalError"),
    ],
)
def test_wrong_arguments_are_refused(pair: dict[str, Any], name: str, error: str) -> None:
    assert pair[name].startswith(f"{error}: ")


def test_it_says_that_mpi_carries_the_data(pair: dict[str, Any]) -> None:
    assert pair["built"] == [True, False, 0]


def test_the_pytorch_part_does_not_import_tensorflow(pair: dict[str, Any]) -> None:
    assert pair["tensorflow"] is False
