"""Launchers' variables are understood, and smddprun passes them on in the form that PyTorch
reads.
"""

from __future__ import annotations

import json
from collections.abc import Callable
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


def test_open_mpi_tells_rank_and_sizes() -> None:
    environment = launch.read(OPEN_MPI)
    assert (environment.launcher, environment.rank, environment.world_size) == (
        launch.Launcher.MPIRUN,
        3,
        4,
    )
    assert (environment.local_rank, environment.local_world_size) == (1, 2)


def test_torchrun_tells_rank_and_sizes() -> None:
    environment = launch.read(
        {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    )
    assert (environment.launcher, environment.rank, environment.single_host) == (
        launch.Launcher.TORCHRUN,
        1,
        True,
    )


def test_a_plain_process_is_a_world_of_one() -> None:
    environment = launch.read({})
    assert (environment.launcher, environment.rank, environment.world_size) == (
        launch.Launcher.NONE,
        0,
        1,
    )


@pytest.mark.parametrize(
    ("variables", "allgather"),
    [
        (OPEN_MPI, False),
        (OPEN_MPI | {"SMDATAPARALLEL_OPTIMIZE_SDP": "true"}, True),
        ({"WORLD_SIZE": "2"}, True),
    ],
)
def test_allreduce_and_allgather_exclude_each_other(
    variables: dict[str, str], allgather: bool
) -> None:
    assert launch.read(variables).accelerates_allgather is allgather


def test_ranks_on_several_hosts_meet_two_ports_above_the_toolkits_server() -> None:
    environ = dict(TWO_HOSTS)
    launch.export(environ)
    assert (environ["MASTER_ADDR"], environ["MASTER_PORT"]) == ("algo-1", "7594")


def test_an_mpi_rank_gets_the_variables_of_torch_and_transformers() -> None:
    environ = dict(TWO_HOSTS)
    launch.export(environ)
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "SMDATAPARALLEL_LOCAL_RANK")
    assert [environ[name] for name in names] == ["3", "4", "1", "2", "1"]


def test_exporting_twice_keeps_the_first_meeting_point() -> None:
    environ = dict(TWO_HOSTS)
    launch.export(environ)
    environ["MASTER_PORT"] = "1"
    launch.export(environ)
    assert environ["MASTER_PORT"] == "1"


def test_torchruns_variables_are_left_alone() -> None:
    environ = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "29500"}
    launch.export(environ)
    assert environ == {"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "29500"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, "^ofi"),
        ("^openib", "^openib,ofi"),
        ("^openib,ofi", "^openib,ofi"),
        ("self,sm,tcp", "self,sm,tcp"),
    ],
)
def test_ranks_do_not_look_for_a_fabric_unless_the_user_chose_transports(
    before: str | None, after: str
) -> None:
    environ = dict(TWO_HOSTS) | ({} if before is None else {"OMPI_MCA_btl": before})
    launch.export(environ)
    assert environ["OMPI_MCA_btl"] == after


def test_open_mpi_leaves_the_fabric_out_where_the_toolkit_lets_it_in(
    runtime: Runtime, tmp_path: Path
) -> None:
    command = runtime.mpirun(2, "-c", "from mpi4py import MPI")
    output = runtime.run(command, tmp_path, {"OMPI_MCA_btl_base_verbose": "10"}).output
    assert "found loaded component tcp" in output
    assert "found loaded component ofi" not in output


def test_two_jobs_on_one_machine_meet_at_different_ports(runtime: Runtime, tmp_path: Path) -> None:
    def port_of(job: str) -> str:
        answer = tmp_path / job
        outcome = runtime.run(
            runtime.mpirun(2, SCRIPTS / "ports.py", answer), tmp_path, {"MASTER_PORT": "7777"}
        )
        assert outcome.returncode == 0, outcome.output
        return str(json.loads(answer.read_text())["port"])

    with ThreadPoolExecutor() as pool:
        first, second = pool.map(port_of, ["one", "two"])
    assert first != second
    assert "7777" not in (first, second)


@pytest.fixture
def smddprun(runtime: Runtime, tmp_path: Path) -> Callable[..., str]:
    return lambda *arguments: (
        runtime.run([str(runtime.python.with_name("smddprun")), *arguments], tmp_path).output
    )


def test_smddprun_without_a_command_shows_its_usage(smddprun: Callable[..., str]) -> None:
    assert smddprun() == "usage: smddprun COMMAND [ARGUMENT...]\n"


def test_smddprun_names_a_command_that_does_not_exist(smddprun: Callable[..., str]) -> None:
    assert (
        smddprun("no-such-command")
        == "smddprun: cannot run no-such-command: No such file or directory\n"
    )


def test_smddprun_passes_arguments_on_unchanged(smddprun: Callable[..., str]) -> None:
    assert smddprun("printf", "%s|", "a b", "--c") == "a b|--c|"
