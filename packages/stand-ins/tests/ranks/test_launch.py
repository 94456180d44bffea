"""Launchers' variables are understood, and smddprun passes them on in the form that PyTorch reads.
Wrong instance types and missing launchers are refused before training.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from smdistributed.dataparallel import launch

from local_kit.runtime import Outcome, Runtime
from local_kit.tables import table
from tests.ranks.conftest import SCRIPTS

TABLE = table(__file__, "cases.yaml")["test_launch"]


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
        command = runtime.mpirun(2, SCRIPTS / "report.py", tmp_path / job)
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


FIRST_API = "import smdistributed.dataparallel.torch.distributed as dist"
IMPORT = "import smdistributed.dataparallel.torch.torch_smddp"
INITIALISE = (
    "import torch.distributed as dist; dist.init_process_group('smddp', store=dist.HashStore(),"
    " rank=0, world_size=1)"
)
JOIN = f"{IMPORT}; {INITIALISE}"
M5 = "UserWarning: smddp cannot run on ml.m5.xlarge"
STRICT = {"SMDDP_LOCAL_STRICT": "1"}


@pytest.fixture
def run(runtime: Runtime, tmp_path: Path) -> Callable[..., Outcome]:
    return lambda code, environment: runtime.run(runtime.alone("-c", code), tmp_path, environment)


NO_P5 = "SMDDPConfigurationError: smddp cannot run on ml.p5.48xlarge; it supports ml.p4d.24xlarge"
TORCHRUN = {"RANK": "0", "WORLD_SIZE": "1", "SMDATAPARALLEL_OPTIMIZE_SDP": "true"}


@pytest.mark.parametrize(
    ("code", "variables", "exit_code", "text"),
    [
        (FIRST_API, {}, 1, "SMDDPUnsupportedError: smddp-local does not have the first API"),
        (IMPORT, STRICT | {"SAGEMAKER_INSTANCE_TYPE": "ml.p5.48xlarge"}, 1, NO_P5),
        (IMPORT, STRICT | {"SM_CURRENT_INSTANCE_TYPE": "ml.p5.48xlarge"}, 1, NO_P5),
        (IMPORT, STRICT | {"SM_CURRENT_INSTANCE_TYPE": "ml.p4d.24xlarge"}, 0, ""),
        (IMPORT, {"SM_CURRENT_INSTANCE_TYPE": "ml.m5.xlarge"}, 0, M5),
        (JOIN, STRICT, 1, "SMDDPConfigurationError: smddp needs a launcher"),
        (JOIN, STRICT | TORCHRUN, 1, "SMDATAPARALLEL_OPTIMIZE_SDP=true is for mpirun"),
    ],
)
def test_what_cannot_work_on_aws_is_refused(
    run: Callable[..., Outcome], code: str, variables: dict[str, str], exit_code: int, text: str
) -> None:
    outcome = run(code, variables)
    assert (outcome.returncode, bool(outcome.output)) == (exit_code, bool(text))
    assert text in outcome.output


def test_without_the_import_torch_does_not_know_the_backend(run: Callable[..., Outcome]) -> None:
    outcome = run(INITIALISE, {})
    assert outcome.returncode == 1
    assert "smddp" in outcome.output.splitlines()[-1]


def test_a_script_that_fails_keeps_its_own_exit_status(run: Callable[..., Outcome]) -> None:
    assert run(f"{JOIN}; import sys; sys.exit(7)", {}).returncode == 7
