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


@pytest.fixture(scope="module")
def first_api(probe: Probe) -> dict[str, Any]:
    return probe("first_api", "mpirun", SMDDP_LOCAL_STRICT="1")


def test_the_first_api_averages_gradients(first_api: dict[str, Any]) -> None:
    assert first_api["gradient"] == [3.0] * 4  # rank r's own gradient is 2 (r + 1)


def test_the_first_api_reduces_and_gathers(first_api: dict[str, Any]) -> None:
    assert (first_api["average"], first_api["total"], first_api["gathered"]) == (
        1.5,
        3.0,
        [0.0, 1.0],
    )


def test_the_first_api_takes_extremes_broadcasts_and_exchanges(first_api: dict[str, Any]) -> None:
    assert (first_api["extremes"], first_api["broadcast"]) == ([0.0, 1.0], [1.0, 1.0])
    assert first_api["exchanged"] == [
        0.0,
        10.0,
    ]  # rank 0's part of each rank's [10 rank, 10 rank + 1]


def test_the_first_api_says_that_it_must_be_initialised_first(first_api: dict[str, Any]) -> None:
    assert first_api["available"]
    assert first_api["too early"].startswith(
        "RuntimeError: call smdistributed.dataparallel.torch.distributed.init_process_group() first"
    )


def test_the_first_api_refuses_accumulation_steps_and_names_no_sync(
    first_api: dict[str, Any],
) -> None:
    assert "no_sync()" in first_api["accumulation"]


def test_the_first_apis_no_sync_accumulates_alone_and_synchronises_once(
    first_api: dict[str, Any],
) -> None:
    assert first_api["alone"] == [2.0] * 4  # rank 0's own
    assert first_api["synchronised"] == [6.0] * 4  # the mean of 4 (r + 1)


@pytest.mark.parametrize("name", REFERENCE)
def test_arguments_and_defaults_of_the_first_api_are_those_of_the_reference(
    first_api: dict[str, Any], name: str
) -> None:
    assert first_api["signatures"][name] == REFERENCE[name]


def test_arguments_and_defaults_of_the_first_apis_wrapper_are_those_of_the_reference(
    first_api: dict[str, Any],
) -> None:
    assert first_api["wrapper"][: len(WRAPPER)] == WRAPPER
    assert "does not have static_graph" in first_api["unknown"]


def test_the_first_api_has_one_group(first_api: dict[str, Any]) -> None:
    assert first_api["group"].startswith("SMDDPUnsupportedError")


def test_the_first_api_warns_that_it_is_deprecated(
    first_api: dict[str, Any], runtime: Runtime, tmp_path: Path
) -> None:
    statement = "import smdistributed.dataparallel.torch.distributed"
    outcome = runtime.run(
        runtime.alone("-W", "error::DeprecationWarning:__main__", "-c", statement), tmp_path
    )
    assert 'use torch.distributed with backend "smddp"' in outcome.output


@pytest.mark.parametrize("runs", [1, pytest.param(20, marks=pytest.mark.nightly)])
def test_scripts_that_never_leave_the_group_end_without_aborting(
    runtime: Runtime, tmp_path: Path, runs: int
) -> None:
    command = runtime.mpirun(2, SCRIPTS / "never_leaves.py")
    with ThreadPoolExecutor(max_workers=2) as pool:
        outcomes = list(pool.map(lambda _: runtime.run(command, tmp_path), range(runs)))
    assert not [outcome for outcome in outcomes if outcome.returncode]
