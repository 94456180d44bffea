"""Scripts written for the first API of smddp train correctly, and scripts that never leave the group end cleanly."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.smddp_local.conftest import SCRIPTS, Probe
from tests.smddp_local.runtime import Runtime

RUNS_WITHOUT_LEAVING = 10


@pytest.fixture(scope="module")
def first_api(probe: Probe) -> dict[str, Any]:
    return probe("first_api", "mpirun", SMDDP_LOCAL_STRICT="1")


def test_the_first_api_averages_gradients(first_api: dict[str, Any]) -> None:
    assert first_api["gradient"] == [3.0] * 4  # rank r's own gradient is 2 (r + 1)


def test_the_first_api_reduces_and_gathers(first_api: dict[str, Any]) -> None:
    assert (first_api["average"], first_api["total"], first_api["gathered"]) == (1.5, 3.0, [0.0, 1.0])


def test_the_first_api_takes_extremes_broadcasts_and_exchanges(first_api: dict[str, Any]) -> None:
    assert (first_api["extremes"], first_api["broadcast"]) == ([0.0, 1.0], [1.0, 1.0])
    assert first_api["exchanged"] == [0.0, 10.0]  # rank 0's part of each rank's [10 rank, 10 rank + 1]


def test_the_first_api_says_that_it_must_be_initialised_first(first_api: dict[str, Any]) -> None:
    assert first_api["available"]
    assert first_api["too early"].startswith("RuntimeError: call smdistributed.dataparallel.torch.distributed.init_process_group() first")


def test_the_first_api_refuses_accumulation_steps_and_names_no_sync(first_api: dict[str, Any]) -> None:
    assert "no_sync()" in first_api["accumulation"]


def test_the_first_api_has_one_group(first_api: dict[str, Any]) -> None:
    assert first_api["group"].startswith("SMDDPUnsupportedError")


def test_the_first_api_warns_that_it_is_deprecated(first_api: dict[str, Any], runtime: Runtime, tmp_path: Path) -> None:
    statement = "import smdistributed.dataparallel.torch.distributed"
    outcome = runtime.run(runtime.alone("-W", "error::DeprecationWarning:__main__", "-c", statement), tmp_path)
    assert 'use torch.distributed with backend "smddp"' in outcome.output


def test_scripts_that_never_leave_the_group_end_without_aborting(runtime: Runtime, tmp_path: Path) -> None:
    command = runtime.mpirun(2, SCRIPTS / "never_leaves.py")
    with ThreadPoolExecutor(max_workers=2) as pool:
        outcomes = list(pool.map(lambda _: runtime.run(command, tmp_path), range(RUNS_WITHOUT_LEAVING)))
    assert [outcome.returncode for outcome in outcomes] == [0] * RUNS_WITHOUT_LEAVING
