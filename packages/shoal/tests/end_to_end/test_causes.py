"""Of a job that one rank ends, a run's page names the line, the host and the rank, whichever
launcher the ranks have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from local_kit.networks import needs_networks
from local_kit.sagemaker_account import Account, archive
from shoal.aws.logs import LogLocation, LogTail
from shoal.page.readings.cause import Cause, cause_in

PROGRAM = Path(__file__).parent / "programs" / "failing.py"
SMDDP = {"sagemaker_distributed_dataparallel_enabled": "true", "meet": "smddp"}
TORCHRUN = {"sagemaker_torch_distributed_enabled": "true", "meet": "gloo"}
MPI = {
    "sagemaker_mpi_enabled": "true",
    "sagemaker_mpi_num_of_processes_per_host": "2",
    "meet": "MPI",
}
LAUNCHERS: dict[str, tuple[dict[str, str], int, int | None]] = {
    "mpirun with smddprun": (SMDDP, 2, 3),
    "mpirun": (MPI, 2, 3),
    "torchrun": (TORCHRUN, 2, 3),
    "torchrun on one host": (TORCHRUN, 1, 1),
    "none": ({"meet": "nobody"}, 2, None),
}
"""The toolkit's hyperparameters, how many hosts of two ranks, and the last rank."""
KILLED = {
    "mpirun with smddprun": "exited on signal 9 (Killed)",
    "mpirun": "exited on signal 9 (Killed)",
    "torchrun": "(SIGKILL)",
    "torchrun on one host": "(SIGKILL)",
    "none": "ExitCode -9",
}
"""What the launcher, or the toolkit, prints of a process that was killed."""

pytestmark = [pytest.mark.nightly, needs_networks]


def cause(account: Account, launcher: str, end: str) -> Cause | None:
    """Run a job whose last rank ends so; return what a run's page says of it."""
    hyperparameters, hosts, _ = LAUNCHERS[launcher]
    account.put("code/failing.py.tar.gz", archive({"failing.py": PROGRAM.read_bytes()}))
    machines: dict[str, Any] = {"InstanceType": "ml.p4d.24xlarge", "VolumeSizeInGB": 1}
    name = f"{launcher}-{end}".replace(" ", "-")
    job = account.train(
        name,
        "failing.py",
        hyperparameters=hyperparameters | {"end": end},
        ResourceConfig=machines | {"InstanceCount": hosts},
    )
    assert job["TrainingJobStatus"] == "Failed"
    log = LogTail(
        account.client("logs"), LogLocation("/aws/sagemaker/TrainingJobs", f"{name}/algo")
    )
    return cause_in(list(log.read()))


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_an_error_is_quoted_with_host_and_rank(account: Account, launcher: str) -> None:
    _, hosts, rank = LAUNCHERS[launcher]
    found = cause(account, launcher, "raises")
    assert found == Cause("ValueError: the loss is nan", f"algo-{hosts}", rank)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_killed_rank_is_named_by_host_and_rank(account: Account, launcher: str) -> None:
    _, hosts, rank = LAUNCHERS[launcher]
    found = cause(account, launcher, "is-killed")
    assert found
    assert KILLED[launcher] in found.line
    assert (found.host, found.rank) == (f"algo-{hosts}", rank)
