"""Processes of jobs and endpoints that somebody kills or freezes: a status says so, with the
reason, nothing waits for ever, and no process is left.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL, SIGSTOP, SIGTERM

import pytest
from botocore.exceptions import ClientError

from local_kit.hosted import GOOD_MODEL, configure, create, invoke, remove
from local_kit.sagemaker_account import Account, until
from shoal_local.testing import emulator, processes_with


@pytest.fixture(scope="module")
def account(runtime: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """The account of an emulator in a process of its own, which stops and gives up early."""
    options = ("--duration", "stop_grace_s=0.5", "--duration", "invocation_s=2")
    with emulator(tmp_path_factory.mktemp("killed"), *options) as local:
        yield Account.at(local.account)


def process_of(account: Account, name: str, who: str) -> int:
    """Return the pid of the `program` of a job or endpoint, or of its pod's first process as this
    machine (`outer`) or the program (`inner`) sees it.
    """
    paths = (account.state_dir / "processes").glob("*.json")
    records = [json.loads(path.read_text()) for path in paths]
    (pid,) = (record["pid"] for record in records if f"-{name}" in record["what"])
    generations: list[int] = [pid]
    while children := Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        pid = int(children[0])
        generations.append(pid)
    return generations[{"outer": 0, "inner": 1, "program": -1}[who]]


def assert_nothing_is_left(account: Account, name: str) -> None:
    until(lambda: processes_with(f"-{name}"), lambda processes: not processes, 20)
    assert f"-{name}" not in str([*(account.state_dir / "processes").glob("*.json")])


@pytest.mark.parametrize(
    ("kind", "who", "number", "status", "reason"),
    [
        ("Training", "program", SIGKILL, "Failed", "ExitCode -9"),
        ("Training", "program", SIGTERM, "Failed", "ExitCode -15"),
        ("Training", "inner", SIGKILL, "Failed", "137"),
        ("Training", "outer", SIGTERM, "Failed", "137"),
        ("Training", "program", SIGSTOP, "Stopped", "MaxRuntime"),
        *(("Training", who, SIGSTOP, "Stopped", "") for who in ("program", "inner", "outer")),
        ("Processing", "program", SIGKILL, "Failed", "exit code: 137"),
        ("Processing", "outer", SIGKILL, "Failed", "exit code: 137"),
        ("Processing", "inner", SIGSTOP, "Stopped", ""),
    ],
)
def test_a_job_whose_process_is_killed_or_frozen_ends_and_says_why(
    account: Account, kind: str, who: str, number: int, status: str, reason: str
) -> None:
    name = f"{kind}-{who}-{int(number)}-{reason[:3] or 'stop'}".lower()
    if kind == "Training":
        limit = {"MaxRuntimeInSeconds": 12 if reason == "MaxRuntime" else 180}
        request = account.training(name, hyperparameters={"do": "wait"}, StoppingCondition=limit)
        account.sagemaker.create_training_job(**request)
    else:
        account.start_processing(name, "echo waiting; exec sleep 600")
    until(lambda: account.log(f"/aws/sagemaker/{kind}Jobs", name), lambda each: "waiting" in each)
    os.kill(process_of(account, name, who), number)
    if number == SIGSTOP and not reason:
        stop = getattr(account.sagemaker, f"stop_{kind.lower()}_job")
        stop(**{f"{kind}JobName": name})
    job = account.ended(kind, name)
    told = job.get("FailureReason", "") + job.get("SecondaryStatus", "")
    assert (job[f"{kind}JobStatus"], reason in told) == (status, True), told
    assert_nothing_is_left(account, name)


@pytest.mark.parametrize(
    ("who", "number", "reason"),
    [
        ("program", SIGKILL, "Your model container"),
        ("program", SIGSTOP, "did not answer"),
        ("inner", SIGSTOP, "does not answer"),
    ],
)
def test_an_endpoint_whose_server_is_gone_or_frozen_says_so_and_can_be_deleted(
    account: Account, who: str, number: int, reason: str
) -> None:
    name = configure(account, f"serve-{who}-{int(number)}", GOOD_MODEL)
    assert create(account, name)["EndpointStatus"] == "InService"
    os.kill(process_of(account, name, who), number)
    with pytest.raises(ClientError, match=reason):
        invoke(account, name, {"x": 1})
    remove(account, name)
    assert_nothing_is_left(account, name)
