"""PyTorch scripts that use smddp as AWS documents it train correctly on any number of ranks, in
strict mode.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.smddp.conftest import Probe

JOBS = [("mpirun", 1), ("mpirun", 2), ("mpirun", 4), ("torchrun", 2)]
DAILY = (("mpirun", 2),)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(each, marks=() if each in DAILY else pytest.mark.nightly) for each in JOBS
    ],
    ids=[f"{launcher} {ranks}" for launcher, ranks in JOBS],
)
def job(request: pytest.FixtureRequest, probe: Probe) -> dict[str, Any]:
    launcher, ranks = request.param
    return probe("conformance", launcher, ranks, SMDDP_LOCAL_STRICT="1") | {"ranks": ranks}


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.nightly)])
def fully_sharded(request: pytest.FixtureRequest, probe: Probe) -> dict[str, Any]:
    return probe("fully_sharded", "torchrun", request.param, SMDDP_LOCAL_STRICT="1") | {
        "ranks": request.param
    }


def test_gradients_equal_those_of_the_whole_batch(job: dict[str, Any]) -> None:
    assert job["gradients"] < 1e-6


def test_all_ranks_hold_the_same_weights_to_the_bit(job: dict[str, Any]) -> None:
    assert job["ranks equal"]


def test_ranks_with_uneven_inputs_end_with_the_same_weights(job: dict[str, Any]) -> None:
    assert job["uneven inputs"]


def test_half_precision_gradients_are_averaged(job: dict[str, Any]) -> None:
    assert job["bf16"] < 0.03  # bfloat16 keeps 8 bits
    assert job["fp16"] < 1e-3  # 11 bits


def test_no_sync_accumulates_alone_and_synchronises_once(job: dict[str, Any]) -> None:
    assert job["no_sync"]["alone"] is (job["ranks"] == 1)
    assert job["no_sync"]["error"] < 1e-6


def test_the_documented_arguments_of_torchs_wrapper_work(job: dict[str, Any]) -> None:
    assert job["options"] < 1e-6


def test_sums_are_right_in_every_type(job: dict[str, Any]) -> None:
    total = job["ranks"] * (job["ranks"] + 1) / 2
    assert job["sums"] == dict.fromkeys(
        ("torch.float16", "torch.bfloat16", "torch.float32", "torch.int64"), total
    )


def test_the_other_documented_primitives_compute_what_they_say(job: dict[str, Any]) -> None:
    ranks = job["ranks"]
    assert (job["extremes"], job["broadcast"], job["reduce"]) == (
        [1.0, ranks],
        ranks - 1,
        ranks * (ranks + 1) / 2,
    )
    assert job["gathered"] == list(range(ranks))


def test_scripts_find_the_variables_that_torch_reads(job: dict[str, Any]) -> None:
    ranks = str(job["ranks"])
    exits = [
        job["variables"][name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    ]
    assert exits == ["0", ranks, "0", ranks]
    assert job["variables"]["MASTER_ADDR"]


def test_the_pytorch_part_does_not_import_tensorflow(job: dict[str, Any]) -> None:
    assert job["tensorflow"] is False


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["FullyShardedDataParallel", "fully_shard"])
def test_fully_sharded_training_equals_one_process_with_the_whole_batch(
    fully_sharded: dict[str, Any], name: str
) -> None:
    assert fully_sharded[name] < 1e-6


@pytest.mark.nightly
def test_fully_sharded_ranks_hold_a_part_of_the_weights(fully_sharded: dict[str, Any]) -> None:
    assert fully_sharded["shard"] < 1 / fully_sharded["ranks"] + 0.1
