"""Which collectives backend "smddp" has, in strict mode and without it; and that AllReduce under
mpirun, which MPI really carries, is right in every type, size and layout that gloo takes.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from local_kit.runtime import Runtime
from local_kit.tables import table
from tests.smddp.conftest import SCRIPTS, Probe

pytestmark = pytest.mark.nightly

OK = "ok"
DOCUMENTED, STRICT = table(__file__, "test_primitives.yaml").values()
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


REDUCED = {
    "transport": "MpiTransport",
    "wrong": [],
    "pictures": [[1.0, 2.0, 2.0]] * 2,  # what lies between a tensor's elements stays
    "columns": True,
    "part": [0.0, 0.0, 2.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    "done": True,  # after wait()
    "asked_of_gloo": [],
}


def test_allreduce_is_right(probe: Probe) -> None:
    assert probe("transport").items() >= REDUCED.items()
