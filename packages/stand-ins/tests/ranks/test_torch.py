"""PyTorch scripts that use smddp as AWS documents it train correctly on any number of ranks, in
strict mode; which collectives backend "smddp" has, in strict mode and without it; and AllReduce
under mpirun, which MPI really carries, is right in every type, size and layout that gloo takes.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from local_kit.runtime import Runtime
from local_kit.tables import table
from tests.ranks.conftest import SCRIPTS, Probe

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


OK = "ok"
DOCUMENTED, STRICT = table(__file__, "cases.yaml")["test_torch"].values()
REDUCING = ("all_reduce", "all_reduce, coalesced", "reduce")
HAS = {f"{name}({each})": OK for name in REDUCING for each in ("SUM", "MIN", "MAX")}
HAS_NOT = {
    f"{name}({each})": "SMDDPUnsupportedError: SMDDP does not support: ReduceOp"
    for name in REDUCING
    for each in ("AVG", "PRODUCT", "BAND", "BOR", "BXOR")
}
BARRIER = {
    "barrier(device_ids)": "SMDDPUnsupportedError: smddp does not support barrier(device_ids=...)"
}
WARNING = "SMDDPPerformanceWarning: under torchrun smddp accelerates AllGather"


@NIGHTLY
@pytest.mark.parametrize(
    ("launcher", "strict", "expected", "warns"),
    [
        ("mpirun", "0", DOCUMENTED | HAS | dict.fromkeys(STRICT, OK), False),
        ("mpirun", "1", DOCUMENTED | STRICT | BARRIER | HAS | HAS_NOT, False),
        # as FSDP needs; torchrun does not accelerate gradients
        (
            "torchrun",
            "1",
            {"reduce_scatter_tensor": OK, "reduce_scatter_tensor, coalesced": OK} | HAS | HAS_NOT,
            True,
        ),
    ],
)
def test_each_mode_has_its_collectives(
    probe: Probe, launcher: str, strict: str, expected: dict[str, str], warns: bool
) -> None:
    answer = probe("primitives", launcher, SMDDP_LOCAL_STRICT=strict)
    assert answer["backend"] == "smddp"
    assert {name: answer[name][: len(text)] for name, text in expected.items()} == expected
    assert ("SMDDPPerformanceWarning" in answer["output"]) is warns
    assert (WARNING in answer["output"]) is warns


@NIGHTLY
def test_scripts_that_never_leave_end_well(runtime: Runtime, tmp_path: Path) -> None:
    command = runtime.mpirun(2, SCRIPTS / "never_leaves.py")
    with ThreadPoolExecutor(max_workers=2) as pool:
        outcomes = list(pool.map(lambda _: runtime.run(command, tmp_path), range(20)))
    assert not [outcome for outcome in outcomes if outcome.returncode]


@NIGHTLY
@pytest.mark.parametrize("strict", ["0", "1"])
def test_no_collective_waits_for_the_thread_that_waits_for_it(probe: Probe, strict: str) -> None:
    answer: dict[str, Any] = probe("locks", SMDDP_LOCAL_STRICT=strict)
    assert answer["right"] == answer["of"]


REDUCED = {
    "transport": "MpiTransport",
    "wrong": [],
    "pictures": [[1.0, 2.0, 2.0]] * 2,  # what lies between a tensor's elements stays
    "columns": True,
    "part": [0.0, 0.0, 2.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    "done": True,  # after wait()
    "asked_of_gloo": [],
}


@NIGHTLY
def test_allreduce_is_right(probe: Probe) -> None:
    assert probe("transport").items() >= REDUCED.items()
