"""`shoal destroy` of what executions left, with the shipped sweeper, and of what serves."""

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from local_kit.control import make_role
from shoal.aws.serving import LiveEndpoint
from shoal.aws.stacks import status_of_stack
from shoal.aws.target import Target
from shoal.cli.commands.deployment import report_serving
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.verbs.workspace import Workspace
from tests.cli.trained import IMAGE, Checkout, Package, Registry, promoted
from tests.functions.invocation import FUNCTIONS
from tests.repository import ROOT, zipped, zipped_modules
from tests.verbs.conftest import ACCOUNT, REGION, make_stack

NAMES = Names(load_environment("dev", ROOT))
FUNCTION, EXECUTION = NAMES.function("sweep"), "abcdefghijkl"
MODEL = f"{NAMES.pipeline}-{EXECUTION}"
BUSY = (
    "def handler(event, context):\n    return {**dict.fromkeys(('kept', 'past_ttl', 'deleted'),"
    " []), 'dry_run': False, "
    + "'endpoints': 1, 'endpoints_past_ttl': 1, 'complete': True, 'pending': ['abcdefghijkl']}\n"
)


@pytest.fixture
def account(registry: Registry) -> Iterator[Any]:
    """Return an account with a model of an unknown execution, older than any limit."""
    target = registry.target
    trusted = {"Service": ["lambda.amazonaws.com", "sagemaker.amazonaws.com"]}
    role = make_role(target.client("iam"), "sweeps", trusted)
    arn = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:pipeline/{NAMES.pipeline}"
    variables = {"PIPELINE_NAME": NAMES.pipeline, "PIPELINE_ARN": arn, "TTL_MINUTES": "0"}
    tags = {"shoal:pipeline": NAMES.pipeline, "shoal:execution": EXECUTION}
    target.client("lambda").create_function(
        FunctionName=FUNCTION,
        Runtime="python3.12",
        Handler="sweep.handler",
        Role=role,
        Timeout=30,
        Code={"ZipFile": zipped_modules(FUNCTIONS / "teardown")},
        Environment={"Variables": variables},
    )
    target.client("sagemaker").create_model(
        ModelName=MODEL,
        ExecutionRoleArn=role,
        PrimaryContainer={"Image": IMAGE, "Environment": {}},
        Tags=[{"Key": key, "Value": value} for key, value in tags.items()],
    )
    yield target
    target.client("lambda").delete_function(FunctionName=FUNCTION)
    target.client("iam").delete_role(RoleName="sweeps")


def models(account: Any) -> list[str]:
    answer = account.client("sagemaker").list_models(NameContains=MODEL)
    return [each["ModelName"] for each in answer["Models"]]


def test_it_says_what_it_would_delete_then_deletes_it_and_then_there_is_nothing(
    released: Checkout, account: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert released.shoal("destroy", "dev", "--leftovers", "--dry-run") == 0
    assert models(account) == [MODEL]
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"would be removed: what executions {EXECUTION} left"
    assert (released.shoal("destroy", "dev", "--leftovers"), models(account)) == (0, [])
    assert capsys.readouterr().out.splitlines() == [
        "endpoints: 0, of which 0 older than 60 minutes",
        f"deleted: model/{MODEL}",
    ]
    assert released.shoal("destroy", "dev", "--leftovers") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "deleted: nothing"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (BUSY, f"not deleted yet: what executions {EXECUTION} left; sweep again in a few minutes"),
        (
            "def handler(event, context):\n    raise RuntimeError('no')\n",
            f"{FUNCTION} failed: RuntimeError: no",
        ),
    ],
)
def test_what_is_not_deleted_yet_and_a_sweeper_that_fails_are_exit_code_1(
    released: Checkout, account: Any, capsys: pytest.CaptureFixture[str], code: str, message: str
) -> None:
    account.client("lambda").update_function_code(
        FunctionName=FUNCTION, ZipFile=zipped({"sweep.py": code})
    )
    assert released.shoal("destroy", "dev", "--leftovers") == 1
    assert capsys.readouterr().err == f"shoal: {message}\n"
    account.client("sagemaker").delete_model(ModelName=MODEL)


STAGING = Names(load_environment("staging", ROOT).model_copy(update={"account": ACCOUNT}))
STACK, ENDPOINT = STAGING.stack("serving"), STAGING.serving_endpoint
OTHER, LOGS = STAGING.stack("data"), f"/aws/sagemaker/Endpoints/{ENDPOINT}"


@pytest.fixture
def target(registry: Registry) -> Iterator[Target]:
    """Return an account with staging's protected serving stack, its log, and another stack."""
    target = registry.target
    for stack in (OTHER, STACK):
        make_stack(target, stack, EnableTerminationProtection=True)
    target.client("logs").create_log_group(logGroupName=LOGS)
    yield target
    cloudformation = target.client("cloudformation")
    cloudformation.update_termination_protection(StackName=OTHER, EnableTerminationProtection=False)
    cloudformation.delete_stack(StackName=OTHER)
    target.client("logs").delete_log_group(logGroupName=LOGS)


@pytest.fixture
def reverted(released: Checkout, good: Package) -> Checkout:
    """Return a checkout in which staging pinned a release and git reverted it; `git revert HEAD`
    pins it again.
    """
    released.merge(promoted(released, good))
    released.git("revert", "--no-edit", "HEAD")
    return released


def test_what_served_goes_once_nothing_is_pinned_and_the_rest_stays(
    reverted: Checkout,
    target: Target,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What goes with the stack: packages/shoal-local/tests/sagemaker/test_hosting_stacks.py."""
    shoal = partial(reverted.shoal, "destroy", "staging", "--serving")
    capsys.readouterr()

    reverted.git("revert", "--no-edit", "HEAD")
    assert shoal() == 2
    assert (
        "environment staging is protected (protect: true in its file), and its file pins a release"
        " to serve" in capsys.readouterr().err
    )
    assert status_of_stack(target, STACK) == "CREATE_COMPLETE"

    reverted.git("revert", "--no-edit", "HEAD")
    report_serving(Workspace(reverted.root, dict(os.environ)).open("staging", local=True))
    assert (
        capsys.readouterr().err
        == f"staging pins no release, but the stack {STACK} is there (CREATE_COMPLETE) and costs"
        " money until `shoal destroy staging --local --serving` deletes it\n"
    )

    assert shoal() == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        f"destroyed: stack {STACK} with the endpoint {ENDPOINT}, its scaling, alarms, configuration"
        " and model" in lines
    )
    assert [line for line in lines if line.startswith("left: ")] == [
        f"left: log group {LOGS}: what the containers said",
        "left: everything else of staging: its other stacks, its data, its registry",
    ]
    stacks = [status_of_stack(target, each) for each in (STACK, OTHER)]
    assert stacks == [None, "CREATE_COMPLETE"]

    assert shoal() == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"there is no stack {STACK} in ")
    session = Workspace(reverted.root, dict(os.environ)).open("staging", local=True)
    report_serving(session)
    assert capsys.readouterr() == ("", "")
    live = LiveEndpoint(ENDPOINT, "InService", (), 2)
    monkeypatch.setattr("shoal.aws.serving.live_endpoint", lambda *_: live)
    report_serving(session)
    assert capsys.readouterr().out.startswith(f"serving: {ENDPOINT} is InService")
