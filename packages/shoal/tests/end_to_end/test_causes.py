"""Of a job that one rank ends, a run's page names the line, the host and the rank, whichever
launcher the ranks have.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from local_kit.networks import needs_networks
from local_kit.sagemaker_account import Account, archive
from shoal.aws.logs import LogLocation, LogTail
from shoal.launch import watch
from shoal.page.readings.cause import Cause
from tests.verbs.test_readings import cause_in

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
BEHIND = {
    "mpirun with smddprun": "rank 3 (algo-2) is in sleep (failing.py:36); ranks 0, 1, 2 in barrier",
    "mpirun": "rank 3 (algo-2) is in sleep (failing.py:36)",
    "torchrun": "rank 3 (algo-2) is in sleep (failing.py:36); ranks 0, 1, 2 in barrier #2, waiting",
    "torchrun on one host": "rank 1 (algo-1) is in sleep (failing.py:36); rank 0 in barrier #2",
    "none": "rank 0 (algo-1) is in sleep (failing.py:36); rank 1 (algo-2) is in sleep",
}
"""What is said of a rank that sleeps while the others wait; where all sleep, of all."""

pytestmark = [pytest.mark.nightly, needs_networks]


@pytest.mark.parametrize("end", ["raises", "is-killed"])
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_what_ended_a_rank_is_quoted_with_host_and_rank(
    account: Account, launcher: str, end: str
) -> None:
    _, hosts, rank = LAUNCHERS[launcher]
    _, found = _failed(account, launcher, end, "failing.py")
    assert (found.host, found.rank) == (f"algo-{hosts}", rank)
    if end == "raises":
        assert found.line == "ValueError: the loss is nan"
    else:
        assert KILLED[launcher] in found.line


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_job_that_stands_still_fails_with_the_ranks_that_it_waits_for(
    account: Account, launcher: str
) -> None:
    reason, found = _failed(account, launcher, "stands-still", watch.PROGRAM)
    assert found.line.startswith("StallError: no progress for 3 s after steps of at most 0.")
    assert found.line in reason
    assert BEHIND[launcher] in found.line


def _failed(account: Account, launcher: str, end: str, program: str) -> tuple[str, Cause]:
    """Run the program to its failure; return the job's reason, and the cause in its log."""
    hyperparameters, hosts, _ = LAUNCHERS[launcher]
    config = {"script": "failing.py", "progress": ["step="], "stall_s": 3}
    quick = {"burst_s": 0.02, "poll_s": 0.1, "grace_s": 1}
    code = {"failing.py": PROGRAM.read_bytes(), **watch.sources()}
    code[f"{watch.FOLDER}/watch.json"] = json.dumps(config | quick).encode()
    account.put(f"code/{program}.tar.gz", archive(code))
    machines = {"InstanceType": "ml.p4d.24xlarge", "VolumeSizeInGB": 1, "InstanceCount": hosts}
    name = f"{launcher}-{end}".replace(" ", "-")
    options = hyperparameters | {"end": end}
    job = account.train(name, program, hyperparameters=options, ResourceConfig=machines)
    assert job["TrainingJobStatus"] == "Failed"
    place = LogLocation("/aws/sagemaker/TrainingJobs", f"{name}/algo")
    found = cause_in(LogTail(account.client("logs"), place).read())
    assert found
    return job["FailureReason"], found
