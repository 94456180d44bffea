"""shoal-local with what pip brings and nothing more: what is missing is answered at once."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_kit.control import refused
from local_kit.sagemaker_account import WIDTH, Account, tuning
from shoal_local.testing import LocalEmulator

SOURCES = Path(__file__).resolve().parents[1] / "src" / "shoal_local"
TRAIN = "sagemaker:CreateTrainingJob"


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of what the emulator prints on stderr."""
    return tmp_path_factory.mktemp("bare") / "errors.txt"


@pytest.fixture(scope="module")
def account(errors: Path) -> Iterator[Account]:
    """An emulator whose package has no node_modules above it, and that cannot import optuna."""
    packages = errors.parent / "packages"
    shutil.copytree(SOURCES, packages / "shoal_local", ignore=shutil.ignore_patterns("*.pyc"))
    (packages / "optuna.py").write_text("raise ImportError")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(errors.parent),
        "PYTHONPATH": str(packages),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    with errors.open("w") as file:
        local = LocalEmulator.start(errors.parent / "state", environment=environment, errors=file)
    try:
        yield Account.at(local.account)
    finally:
        left = local.stop()
    assert left == []


@pytest.mark.parametrize(
    ("actions", "resources"),
    [
        ([TRAIN], []),
        ([TRAIN, "ecr:GetAuthorizationToken"], ["arn:aws:s3:::one/*"]),
        (["of-no:Service"], ["*"]),
    ],
)
def test_a_role_without_policies_may_do_everything(
    account: Account, actions: list[str], resources: list[str]
) -> None:
    results = account.client("iam").simulate_principal_policy(
        PolicySourceArn=account.role, ActionNames=actions, ResourceArns=resources
    )["EvaluationResults"]
    assert [each["EvalActionName"] for each in results] == actions
    assert {each["EvalDecision"] for each in results} == {"allowed"}


def test_what_needs_an_extra_is_a_refusal_that_no_client_repeats(account: Account) -> None:
    """botocore repeats a request that ends with 500."""
    request = account.sagemaker.create_hyper_parameter_tuning_job
    job = tuning(account.training("x"), WIDTH, Strategy="Bayesian")
    code, message = refused(request, HyperParameterTuningJobName="tuning", **job)
    assert (code, "pip install 'shoal-local[tuning]'" in message) == (
        "UnknownOperationException",
        True,
    )
    missing = {"PolicySourceArn": f"{account.role}-missing", "ActionNames": [TRAIN]}
    code, _ = refused(account.client("iam").simulate_principal_policy, **missing)
    assert code == "NoSuchEntity"


def test_what_is_missing_is_said_once(account: Account, errors: Path) -> None:
    assert account.number
    assert errors.read_text().count("npm install") == 1


def test_a_queue_is_mapped_where_nothing_evaluates_policies(account: Account) -> None:
    name = account.control.function("def handler(event, context):\n    pass\n", Timeout=1)
    _url, arn = account.control.queue(VisibilityTimeout="1")
    account.client("lambda").create_event_source_mapping(FunctionName=name, EventSourceArn=arn)
    log = (account.state_dir / "emulator.log").read_text()
    assert "not checked whether a role may sqs:ReceiveMessage" in log
