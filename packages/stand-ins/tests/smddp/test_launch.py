"""Launchers' variables are understood, and smddprun passes them on in the form that PyTorch
reads.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from smdistributed.dataparallel import launch

from local_kit.runtime import Runtime
from tests.smddp.conftest import SCRIPTS

OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}
TWO_HOSTS = OPEN_MPI | {
    "SMDATAPARALLEL_SERVER_ADDR": "algo-1",
    "SMDATAPARALLEL_SERVER_PORT": "7592",
}


@pytest.mark.parametrize(
    ("variables", "launcher", "place", "single_host"),
    [
        (OPEN_MPI, launch.Launcher.MPIRUN, (3, 4, 1, 2), False),
        (
            {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"},
            launch.Launcher.TORCHRUN,
            (1, 2, 1, 2),
            True,
        ),
        ({}, launch.Launcher.NONE, (0, 1, 0, 1), True),
    ],
)
def test_launchers_tell_rank_and_sizes(
    variables: dict[str, str], launcher: str, place: tuple[int, ...], single_host: bool
) -> None:
    read = launch.read(variables)
    assert (read.rank, read.world_size, read.local_rank, read.local_world_size) == place
    assert (read.launcher, read.single_host) == (launcher, single_host)


@pytest.mark.parametrize(
    ("variables", "allgather"),
    [
        (OPEN_MPI, False),
        (OPEN_MPI | {"SMDATAPARALLEL_OPTIMIZE_SDP": "true"}, True),
        ({"WORLD_SIZE": "2"}, True),
    ],
)
def test_allreduce_or_allgather_is_faster(variables: dict[str, str], allgather: bool) -> None:
    assert launch.read(variables).accelerates_allgather is allgather


EXPORTED = {
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "SMDATAPARALLEL_LOCAL_RANK": "1",
    "MASTER_ADDR": "algo-1",
    "MASTER_PORT": "7594",
    "OMPI_MCA_btl": "^ofi",
}
"""Ranks on several hosts meet two ports above the toolkit's server."""
OF_TORCHRUN = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "29500"}
EXPORTED_BEFORE = TWO_HOSTS | EXPORTED | {"MASTER_PORT": "1"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (TWO_HOSTS, TWO_HOSTS | EXPORTED),
        (EXPORTED_BEFORE, EXPORTED_BEFORE),
        (OF_TORCHRUN, OF_TORCHRUN),
        # ranks look for no fabric unless the user chose it
        *(
            (TWO_HOSTS | {"OMPI_MCA_btl": before}, TWO_HOSTS | EXPORTED | {"OMPI_MCA_btl": after})
            for before, after in (
                ("^openib", "^openib,ofi"),
                ("^openib,ofi", "^openib,ofi"),
                ("self,sm,tcp", "self,sm,tcp"),
            )
        ),
    ],
)
def test_a_rank_gets_the_variables_of_torch_and_transformers(
    before: dict[str, str], after: dict[str, str]
) -> None:
    environ = dict(before)
    launch.export(environ)
    assert environ == after


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


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        ((), "usage: smddprun COMMAND [ARGUMENT...]\n"),
        (
            ("no-such-command",),
            "smddprun: cannot run no-such-command: No such file or directory\n",
        ),
        (("printf", "%s|", "a b", "--c"), "a b|--c|"),
    ],
)
def test_smddprun_becomes_the_command(
    runtime: Runtime, tmp_path: Path, arguments: tuple[str, ...], output: str
) -> None:
    command = [str(runtime.python.with_name("smddprun")), *arguments]
    assert runtime.run(command, tmp_path).output == output
