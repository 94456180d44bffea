"""Which collectives backend "smddp" has, in strict mode and without it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from local_kit.runtime import Runtime
from tests.smddp.conftest import SCRIPTS, Probe

pytestmark = pytest.mark.nightly

OK = "ok"
NOT_THERE = "SMDDPUnsupportedError: smddp does not implement "
NO_GROUP = (
    "SMDDPUnsupportedError: smddp supports no process group but the default one, of no backend:"
    " new_group() is refused"
)
NO_REDUCE_SCATTER = (
    "SMDDPUnsupportedError: smddp started by mpirun accelerates AllReduce and has no"
)
DOCUMENTED = dict.fromkeys(
    (
        *("all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor"),
        *("all_gather_into_tensor, coalesced", "all_gather_object", "barrier"),
        "DistributedDataParallel",
    ),
    OK,
)
STRICT = {
    "all_to_all_single": NOT_THERE,
    "gather": NOT_THERE,
    "scatter": NOT_THERE,
    "send": NOT_THERE,
    "new_group": NO_GROUP,
    "new_group(backend=gloo)": NO_GROUP,
    "new_subgroups": NO_GROUP,
    "reduce_scatter_tensor": NO_REDUCE_SCATTER,
    "reduce_scatter_tensor, coalesced": NO_REDUCE_SCATTER,
}
"""Collective -> how strict mode refuses it under mpirun; what gloo can do works without it."""
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


def test_scripts_that_never_leave_end_well(runtime: Runtime, tmp_path: Path) -> None:
    command = runtime.mpirun(2, SCRIPTS / "never_leaves.py")
    with ThreadPoolExecutor(max_workers=2) as pool:
        outcomes = list(pool.map(lambda _: runtime.run(command, tmp_path), range(20)))
    assert not [outcome for outcome in outcomes if outcome.returncode]


@pytest.mark.parametrize("strict", ["0", "1"])
def test_no_collective_waits_for_the_thread_that_waits_for_it(probe: Probe, strict: str) -> None:
    answer: dict[str, Any] = probe("locks", SMDDP_LOCAL_STRICT=strict)
    assert answer["right"] == answer["of"]
