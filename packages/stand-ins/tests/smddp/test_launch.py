"""Launchers' variables are understood, and smddprun passes them on in the form that PyTorch
reads.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from smdistributed.dataparallel import launch

from local_kit.runtime import Runtime
from local_kit.tables import table
from tests.smddp.conftest import SCRIPTS

TABLE = table(__file__, "test_launch.yaml")


@pytest.mark.parametrize("row", TABLE["launchers"])
def test_launchers_tell_rank_and_sizes(row: dict[str, Any]) -> None:
    read = launch.read(row["variables"])
    assert [read.rank, read.world_size, read.local_rank, read.local_world_size] == row["place"]
    assert (read.launcher.name, read.single_host) == (row["launcher"], row["single_host"])


@pytest.mark.parametrize("row", TABLE["faster"])
def test_allreduce_or_allgather_is_faster(row: dict[str, Any]) -> None:
    assert launch.read(row["variables"]).accelerates_allgather is row["allgather"]


@pytest.mark.parametrize("row", TABLE["exports"])
def test_a_rank_gets_the_variables_of_torch_and_transformers(row: dict[str, Any]) -> None:
    environ = dict(row["before"])
    launch.export(environ)
    assert environ == row["after"]


def test_open_mpi_leaves_out_the_fabric_that_is_let_in(runtime: Runtime, tmp_path: Path) -> None:
    command = runtime.mpirun(2, "-c", "from mpi4py import MPI")
    output = runtime.run(command, tmp_path, {"OMPI_MCA_btl_base_verbose": "10"}).output
    assert "found loaded component tcp" in output
    assert "found loaded component ofi" not in output


def test_two_jobs_on_one_machine_meet_at_different_ports(runtime: Runtime, tmp_path: Path) -> None:
    def port_of(job: str) -> str:
        command = runtime.mpirun(2, SCRIPTS / "ports.py", tmp_path / job)
        return str(runtime.answer(command, tmp_path, {"MASTER_PORT": "7777"})["port"])

    with ThreadPoolExecutor() as pool:
        first, second = pool.map(port_of, ["one", "two"])
    assert first != second
    assert "7777" not in (first, second)


@pytest.mark.parametrize("row", TABLE["commands"])
def test_smddprun_becomes_the_command(
    runtime: Runtime, tmp_path: Path, row: dict[str, Any]
) -> None:
    command = [str(runtime.python.with_name("smddprun")), *row["arguments"]]
    assert runtime.run(command, tmp_path).output == row["output"]
