"""PyTorch scripts that use smddp as AWS documents it train correctly on any number of ranks, in
strict mode.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.smddp.conftest import Probe

NIGHTLY = pytest.mark.nightly
TYPES = ("torch.float16", "torch.bfloat16", "torch.float32", "torch.int64")


@pytest.mark.parametrize(
    ("launcher", "ranks"),
    [
        ("mpirun", 2),
        pytest.param("mpirun", 1, marks=NIGHTLY),
        pytest.param("mpirun", 4, marks=NIGHTLY),
        pytest.param("torchrun", 2, marks=NIGHTLY),
    ],
)
def test_training_is_right_in_every_documented_way(probe: Probe, launcher: str, ranks: int) -> None:
    answer = probe("conformance", launcher, ranks, SMDDP_LOCAL_STRICT="1")
    total = ranks * (ranks + 1) / 2
    expected = {
        # distances to the gradients of one process with the whole batch
        "gradients": pytest.approx(0, abs=1e-6),
        "options": pytest.approx(0, abs=1e-6),
        "bf16": pytest.approx(0, abs=0.03),  # bfloat16 keeps 8 bits
        "fp16": pytest.approx(0, abs=1e-3),  # 11 bits
        "no_sync": {"alone": ranks == 1, "error": pytest.approx(0, abs=1e-6)},
        "ranks equal": True,  # to the bit
        "uneven inputs": True,
        "sums": dict.fromkeys(TYPES, total),
        "extremes": [1.0, ranks],
        "broadcast": ranks - 1,
        "reduce": total,
        "gathered": [*range(ranks)],
        "tensorflow": False,  # not imported
    }
    assert {name: answer[name] for name in expected} == expected
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    assert [answer["variables"][name] for name in names] == ["0", str(ranks), "0", str(ranks)]
    assert answer["variables"]["MASTER_ADDR"]


@pytest.mark.nightly
@pytest.mark.parametrize("ranks", [2, 4])
def test_fully_sharded_training_equals_one_process(probe: Probe, ranks: int) -> None:
    answer: dict[str, Any] = probe("fully_sharded", "torchrun", ranks, SMDDP_LOCAL_STRICT="1")
    assert answer["FullyShardedDataParallel"] < 1e-6
    assert answer["fully_shard"] < 1e-6
    assert answer["shard"] < 1 / ranks + 0.1  # of the weights
