"""MLflow's tracking servers: AWS's plugin for MLflow, unmodified, finds one by its ARN."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from local.tests.clients.outcomes import PROGRAMS, ROOT, interpreter
from local.tests.sagemaker.account import BUCKET, Account, until
from shoal_local.testing import LocalEmulator, emulator, processes_with

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]
NAME = {"TrackingServerName": "runs"}
STORE = f"s3://{BUCKET}/mlflow"


@contextmanager
def emulator_with_mlflow(state_dir: Path, *options: str) -> Iterator[LocalEmulator]:
    """An emulator whose interpreter has MLflow."""
    packages = (str(ROOT / "local" / "src"), sysconfig.get_path("purelib"))
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(packages)}
    python = str(interpreter("mlflow"))
    with emulator(state_dir, *options, environment=variables, python=python) as running:
        yield running


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    folder = tmp_path_factory.mktemp("mlflow") / "state"
    with emulator_with_mlflow(folder, "--enforce-iam") as running:
        yield Account.at(running.account)


@pytest.fixture(scope="module")
def arn(account: Account) -> str:
    return created(account)


def created(account: Account) -> str:
    """Create the server, and return its ARN."""
    answer = account.sagemaker.create_mlflow_tracking_server(
        **NAME, ArtifactStoreUri=STORE, RoleArn=account.role
    )
    assert settled(account) == "Created"
    return str(answer["TrackingServerArn"])


def settled(account: Account) -> str:
    """Return the server's status when it is not on its way to another; "" without a server.

    Where it failed, fail with what it printed.
    """
    client = account.sagemaker

    def status() -> str:
        try:
            return str(client.describe_mlflow_tracking_server(**NAME)["TrackingServerStatus"])
        except client.exceptions.ResourceNotFound:
            return ""

    found = str(until(status, lambda each: not each.endswith("ing"), timeout_s=600))
    printed = [log.read_text() for log in account.state_dir.rglob("tracking-*/*log*")]
    assert not found.endswith("Failed"), "\n".join([found, *printed])
    return found


def servers_of(account: Account) -> list[str]:
    """Return the processes of tracking servers; the emulator's own interpreter has MLflow too."""
    return [
        each
        for each in processes_with(str(account.state_dir))
        if "mlflow" in each and "shoal_local serve" not in each
    ]


def log_a_run(
    account: Account, arn: str, folder: Path, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the client with the variables of docs/guides/clients.md."""
    variables = account.environment() | {"HOME": str(folder), "MLFLOW_DISABLE_TELEMETRY": "true"}
    return subprocess.run(
        [interpreter("mlflow"), PROGRAMS / "mlflow_client.py", arn],
        cwd=folder,
        env=variables | dict(more or {}),
        capture_output=True,
        text=True,
        check=False,
    )


def test_mlflow_reads_what_it_logged_and_its_files_are_in_s3(
    account: Account, arn: str, tmp_path: Path
) -> None:
    finished = log_a_run(account, arn, tmp_path)
    assert finished.returncode == 0, finished.stderr
    read: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    uri = read.pop("artifact_uri")
    assert uri.startswith(STORE)
    assert account.get(f"{uri}/notes.txt") == b"seen"
    assert read == {
        "status": "FINISHED",
        "parameters": {"epochs": "2"},
        "loss": [[1, 0.5], [2, 0.25]],
        "artifacts": ["notes.txt"],
        "version": ["digits", "1", "READY"],
    }


def test_a_role_logs_only_what_its_policies_allow(
    account: Account, arn: str, tmp_path: Path
) -> None:
    iam = account.client("iam")
    everybody = {"AWS": f"arn:aws:iam::{account.number}:root"}
    statement = {"Effect": "Allow", "Principal": everybody, "Action": "sts:AssumeRole"}
    reads = {"Effect": "Allow", "Action": "sagemaker-mlflow:Get*", "Resource": arn}
    role = iam.create_role(RoleName="reader", AssumeRolePolicyDocument=policy(statement))["Role"]
    iam.put_role_policy(RoleName="reader", PolicyName="reads", PolicyDocument=policy(reads))
    credentials = account.client("sts").assume_role(RoleArn=role["Arn"], RoleSessionName="reader")[
        "Credentials"
    ]
    variables = {
        "AWS_ACCESS_KEY_ID": credentials["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": credentials["SecretAccessKey"],
        "AWS_SESSION_TOKEN": credentials["SessionToken"],
    }
    refused = log_a_run(account, arn, tmp_path, variables)
    # CreateRun where another test has made the experiment
    assert "is not authorized to perform: sagemaker-mlflow:Create" in refused.stderr


def policy(statement: Mapping[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def test_a_server_keeps_its_runs_while_it_is_stopped_and_leaves_no_process(
    account: Account, arn: str, tmp_path: Path
) -> None:
    client = account.sagemaker
    assert servers_of(account)
    client.stop_mlflow_tracking_server(**NAME)
    assert settled(account) == "Stopped"
    assert servers_of(account) == []
    refused = log_a_run(account, arn, tmp_path)
    assert "is Stopped; it answers when it is Created or Started" in refused.stderr
    client.start_mlflow_tracking_server(**NAME)
    assert settled(account) == "Started"
    again = log_a_run(account, arn, tmp_path)
    assert "RESOURCE_ALREADY_EXISTS" in again.stderr  # the registered model
    client.delete_mlflow_tracking_server(**NAME)
    assert settled(account) == ""
    assert servers_of(account) == []


def test_a_kept_server_runs_again_with_its_runs(tmp_path: Path) -> None:
    with emulator_with_mlflow(tmp_path / "state", "--keep") as running:
        account = Account.at(running.account)
        logged = log_a_run(account, created(account), tmp_path)
        assert logged.returncode == 0, logged.stderr
    with emulator_with_mlflow(tmp_path / "state", "--keep") as running:
        account = Account(running.account.endpoint, tmp_path / "state", running.account.number)
        server = account.sagemaker.describe_mlflow_tracking_server(**NAME)
        assert settled(account) == "Started"
        again = log_a_run(account, server["TrackingServerArn"], tmp_path)
    assert "RESOURCE_ALREADY_EXISTS" in again.stderr  # the registered model
