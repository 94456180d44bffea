"""Scripts written for the first API of smddp train correctly, and scripts that never leave the
group end cleanly.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from local_kit.runtime import Runtime
from tests.smddp.conftest import SCRIPTS, Probe

pytestmark = pytest.mark.nightly

# Source: SageMaker Python SDK documentation, "PyTorch API" of the library 1.2: its arguments and
# defaults, in its order.
GROUP = "group=group.WORLD"
REFERENCE = {
    "is_available": [],
    "is_initialized": [],
    "init_process_group": ["args", "kwargs"],
    "get_world_size": [GROUP],
    "get_rank": [GROUP],
    "get_local_rank": [],
    "all_reduce": ["tensor", "op=ReduceOp.SUM", GROUP, "async_op=False"],
    "broadcast": ["tensor", "src=0", GROUP, "async_op=False"],
    "all_gather": ["tensor_list", "tensor", GROUP, "async_op=False"],
    "all_to_all_single": [
        "output_t",
        "input_t",
        "output_split_sizes=None",
        "input_split_sizes=None",
        GROUP,
        "async_op=False",
    ],
    "barrier": [GROUP, "async_op=False"],
}
WRAPPER = [
    "module",
    "device_ids=None",
    "output_device=None",
    "broadcast_buffers=True",
    "process_group=None",
    "bucket_cap_mb=None",
]


EXPECTED = {
    "gradient": [3.0] * 4,  # the mean: rank r's own is 2 (r + 1)
    "alone": [2.0] * 4,  # inside no_sync(), rank 0's own
    "synchronised": [6.0] * 4,  # the mean of 4 (r + 1)
    "average": 1.5,
    "total": 3.0,
    "gathered": [0.0, 1.0],
    "extremes": [0.0, 1.0],
    "broadcast": [1.0, 1.0],
    "exchanged": [0.0, 10.0],  # rank 0's part of each rank's [10 rank, 10 rank + 1]
    "available": True,
}
REFUSED = {
    "too early": "RuntimeError: call smdistributed.dataparallel.torch.distributed.init_process",
    "accumulation": "SMDDPUnsupportedError: smddp does not support gradient_accumulation_steps",
    "unknown": "SMDDPUnsupportedError: smddp's DistributedDataParallel does not have static_graph",
    "group": "SMDDPUnsupportedError: smddp supports no process group but group.WORLD",
}


def test_the_first_api_trains_and_refuses_as_awss(probe: Probe) -> None:
    answer: dict[str, Any] = probe("first_api", SMDDP_LOCAL_STRICT="1")
    assert {name: answer[name] for name in EXPECTED} == EXPECTED
    assert {name: answer[name][: len(text)] for name, text in REFUSED.items()} == REFUSED
    assert "no_sync()" in answer["accumulation"]
    assert {name: answer["signatures"][name] for name in REFERENCE} == REFERENCE
    assert answer["wrapper"][: len(WRAPPER)] == WRAPPER


def test_the_first_api_warns_that_it_is_deprecated(runtime: Runtime, tmp_path: Path) -> None:
    statement = "import smdistributed.dataparallel.torch.distributed"
    outcome = runtime.run(
        runtime.alone("-W", "error::DeprecationWarning:__main__", "-c", statement), tmp_path
    )
    assert 'use torch.distributed with backend "smddp"' in outcome.output


@pytest.mark.parametrize("runs", [1, pytest.param(20, marks=pytest.mark.nightly)])
def test_scripts_that_never_leave_end_well(runtime: Runtime, tmp_path: Path, runs: int) -> None:
    command = runtime.mpirun(2, SCRIPTS / "never_leaves.py")
    with ThreadPoolExecutor(max_workers=2) as pool:
        outcomes = list(pool.map(lambda _: runtime.run(command, tmp_path), range(runs)))
    assert not [outcome for outcome in outcomes if outcome.returncode]
