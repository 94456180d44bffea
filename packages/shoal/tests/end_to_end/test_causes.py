"""Of a job that one rank ends, a run's page names the line, the host and the rank, whichever
launcher the ranks have.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from local_kit.networks import needs_networks
from local_kit.sagemaker_account import Account, archive
from local_kit.tables import table
from shoal.aws.logs import LogLocation, LogTail
from shoal.launch import watch
from shoal.page.step_log import Cause
from tests.verbs.test_readings import cause_in

PROGRAM = Path(__file__).parent / "programs" / "failing.py"
LAUNCHERS: dict[str, dict[str, Any]] = table(__file__, "cases.yaml")["causes"]

pytestmark = [pytest.mark.nightly, needs_networks]


@pytest.mark.parametrize("end", ["raises", "is-killed"])
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_what_ended_a_rank_is_quoted_with_host_and_rank(
    account: Account, launcher: str, end: str
) -> None:
    row = LAUNCHERS[launcher]
    _, found = _failed(account, launcher, end, "failing.py")
    assert (found.host, found.rank) == (f"algo-{row['hosts']}", row["rank"])
    if end == "raises":
        assert found.line == "ValueError: the loss is nan"
    else:
        assert row["killed"] in found.line


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_job_that_stands_still_fails_with_the_ranks_that_it_waits_for(
    account: Account, launcher: str
) -> None:
    reason, found = _failed(account, launcher, "stands-still", watch.PROGRAM)
    assert found.line.startswith("StallError: no progress for 3 s after steps of at most 0.")
    assert found.line in reason
    assert LAUNCHERS[launcher]["behind"] in found.line


def _failed(account: Account, launcher: str, end: str, program: str) -> tuple[str, Cause]:
    """Run the program to its failure; return the job's reason, and the cause in its log."""
    row = LAUNCHERS[launcher]
    config = {"script": "failing.py", "progress": ["step="], "stall_s": 3}
    quick = {"burst_s": 0.02, "poll_s": 0.1, "grace_s": 1}
    code = {"failing.py": PROGRAM.read_bytes(), **watch.sources()}
    code[f"{watch.FOLDER}/watch.json"] = json.dumps(config | quick).encode()
    account.put(f"code/{program}.tar.gz", archive(code))
    machines = {"InstanceType": "ml.p4d.24xlarge", "VolumeSizeInGB": 1}
    machines["InstanceCount"] = row["hosts"]
    name = f"{launcher}-{end}".replace(" ", "-")
    options = row["hyperparameters"] | {"end": end}
    job = account.train(name, program, hyperparameters=options, ResourceConfig=machines)
    assert job["TrainingJobStatus"] == "Failed"
    place = LogLocation("/aws/sagemaker/TrainingJobs", f"{name}/algo")
    found = cause_in(LogTail(account.client("logs"), place).read())
    assert found
    return job["FailureReason"], found
