"""Of a job that one rank ends, a run's page names the line, the host and the rank, whichever
launcher the ranks have.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from local_kit.networks import needs_networks
from local_kit.sagemaker_account import Account, archive
from shoal.aws.logs import LogLocation, LogTail
from tests.verbs.test_step_log import cause_in

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


@pytest.mark.parametrize("end", ["raises", "is-killed"])
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_what_ended_a_rank_is_quoted_with_host_and_rank(
    account: Account, launcher: str, end: str
) -> None:
    hyperparameters, hosts, rank = LAUNCHERS[launcher]
    account.put("code/failing.py.tar.gz", archive({"failing.py": PROGRAM.read_bytes()}))
    machines = {"InstanceType": "ml.p4d.24xlarge", "VolumeSizeInGB": 1, "InstanceCount": hosts}
    name = f"{launcher}-{end}".replace(" ", "-")
    job = account.train(
        name, "failing.py", hyperparameters=hyperparameters | {"end": end}, ResourceConfig=machines
    )
    assert job["TrainingJobStatus"] == "Failed"
    log = LogTail(
        account.client("logs"), LogLocation("/aws/sagemaker/TrainingJobs", f"{name}/algo")
    )
    found = cause_in(log.read())
    assert found
    assert (found.host, found.rank) == (f"algo-{hosts}", rank)
    if end == "raises":
        assert found.line == "ValueError: the loss is nan"
    else:
        assert KILLED[launcher] in found.line
