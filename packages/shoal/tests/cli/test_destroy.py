"""`shoal destroy` of what executions left, with the shipped sweeper, and of what serves."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from local_kit.control import trust
from local_kit.hosted import ENVIRONMENT, GOOD_MODEL
from shoal.aws.inventory import Owner, of_environment
from shoal.aws.target import Target
from shoal.cli.commands.deployment import report_serving
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.verbs.local_server import LocalServer, build_runtimes
from shoal.verbs.workspace import Workspace
from tests.cli.trained import IMAGE, Checkout, Package, Registry, promoted
from tests.functions.invocation import FUNCTIONS
from tests.repository import ROOT
from tests.verbs.conftest import ACCOUNT, REGION, make_stack

NAMES = Names(load_environment("dev", ROOT))
FUNCTION, EXECUTION = NAMES.function("sweep"), "abcdefghijkl"
MODEL = f"{NAMES.pipeline}-{EXECUTION}"
BUSY = (
    "def handler(event, context):\n    return {**dict.fromkeys(('kept', 'past_ttl', 'deleted'),"
    " []), 'dry_run': False, "
    + "'endpoints': 1, 'endpoints_past_ttl': 1, 'complete': True, 'pending': ['abcdefghijkl']}\n"
)


def archive(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive_file:
        for name, content in files.items():
            archive_file.writestr(name, content)
    return buffer.getvalue()


@pytest.fixture
def account(registry: Registry) -> Iterator[Any]:
    """Return an account with a model of an unknown execution, older than any limit."""
    target = registry.target
    trusted = trust({"Service": ["lambda.amazonaws.com", "sagemaker.amazonaws.com"]})
    answer = target.client("iam").create_role(RoleName="sweeps", AssumeRolePolicyDocument=trusted)
    role = answer["Role"]["Arn"]
    shipped = {path.name: path.read_text() for path in (FUNCTIONS / "teardown").glob("*.py")}
    arn = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:pipeline/{NAMES.pipeline}"
    variables = {"PIPELINE_NAME": NAMES.pipeline, "PIPELINE_ARN": arn, "TTL_MINUTES": "0"}
    tags = {"shoal:pipeline": NAMES.pipeline, "shoal:execution": EXECUTION}
    target.client("lambda").create_function(
        FunctionName=FUNCTION,
        Runtime="python3.12",
        Handler="sweep.handler",
        Role=role,
        Timeout=30,
        Code={"ZipFile": archive(shipped)},
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
        FunctionName=FUNCTION, ZipFile=archive({"sweep.py": code})
    )
    assert released.shoal("destroy", "dev", "--leftovers") == 1
    assert capsys.readouterr().err == f"shoal: {message}\n"
    account.client("sagemaker").delete_model(ModelName=MODEL)


DESTROY = ("destroy", "staging", "--serving")
STAGING = Names(load_environment("staging", ROOT).model_copy(update={"account": ACCOUNT}))
STACK, ENDPOINT = STAGING.stack("serving"), STAGING.serving_endpoint
OTHER = STAGING.stack("data")
SERVED = ("stack", "endpoint", "endpoint config", "model", "scalable target", "alarm")


def serving(model_data: str, role: str) -> dict[str, Any]:
    """Return a short serving stack; CloudFormation names all but the endpoint."""
    container = {"Image": IMAGE, "ModelDataUrl": model_data, "Environment": ENVIRONMENT}
    model, config = ({"Fn::GetAtt": [what, f"{what}Name"]} for what in ("Model", "EndpointConfig"))
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": model,
        "InstanceType": "ml.m5.xlarge",
        "InitialInstanceCount": 1,
    }
    scaled = {
        "ServiceNamespace": "sagemaker",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
        "ResourceId": f"endpoint/{ENDPOINT}/variant/AllTraffic",
        "MinCapacity": 1,
        "MaxCapacity": 2,
    }
    properties: dict[str, dict[str, Any]] = {
        "Model": {"PrimaryContainer": container, "ExecutionRoleArn": role},
        "EndpointConfig": {"ProductionVariants": [variant]},
        "Endpoint": {"EndpointName": ENDPOINT, "EndpointConfigName": config},
    }
    resources: dict[str, Any] = {
        key: {"Type": f"AWS::SageMaker::{key}", "Properties": each}
        for key, each in properties.items()
    }
    kind = "AWS::ApplicationAutoScaling::ScalableTarget"
    resources["Scaled"] = {"Type": kind, "Properties": scaled, "DependsOn": "Endpoint"}
    return resources


@pytest.fixture
def target(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Return an account with staging's protected serving stack, its endpoint, and another stack."""
    build_runtimes(ROOT, os.environ, "pytorch", tmp_path_factory.mktemp("runtimes") / "log", print)
    target = registry.target
    role = target.client("iam").create_role(
        RoleName="serves-staging",
        AssumeRolePolicyDocument=trust({"Service": "sagemaker.amazonaws.com"}),
    )
    resources = serving(registry.put("served.tar.gz", GOOD_MODEL), role["Role"]["Arn"])
    make_stack(target, OTHER, EnableTerminationProtection=True)
    make_stack(target, STACK, resources, EnableTerminationProtection=True)
    yield target
    cloudformation = target.client("cloudformation")
    cloudformation.update_termination_protection(StackName=OTHER, EnableTerminationProtection=False)
    cloudformation.delete_stack(StackName=OTHER)
    target.client("iam").delete_role(RoleName="serves-staging")


@pytest.fixture
def reverted(released: Checkout, good: Package) -> Checkout:
    """Return a checkout in which staging pinned a release and git reverted it; `git revert HEAD`
    pins it again.
    """
    released.merge(promoted(released, good))
    released.git("revert", "--no-edit", "HEAD")
    return released


def there(target: Target) -> set[str]:
    """Return the kinds of resources that serve staging."""
    resources = of_environment(target, Owner(ENDPOINT), SERVED)
    return {resource.kind for resource in resources if resource.name != OTHER}


def test_what_served_goes_once_nothing_is_pinned_and_the_rest_stays(
    reverted: Checkout,
    target: Target,
    local_server: LocalServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shoal = partial(reverted.shoal, *DESTROY)
    assert there(target) == {"stack", "endpoint", "endpoint config", "model", "scalable target"}
    capsys.readouterr()

    reverted.git("revert", "--no-edit", "HEAD")
    assert shoal() == 2
    assert (
        "environment staging is protected (protect: true in its file), and its file pins a release"
        " to serve" in capsys.readouterr().err
    )
    assert there(target) == {"stack", "endpoint", "endpoint config", "model", "scalable target"}

    reverted.git("revert", "--no-edit", "HEAD")
    report_serving(Workspace(reverted.root, dict(os.environ)).open("staging", local=True))
    output = capsys.readouterr()
    assert output.out.startswith(f"serving: {ENDPOINT} is InService")
    assert (
        output.err
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
        f"left: log group /aws/sagemaker/Endpoints/{ENDPOINT}: what the containers said",
        "left: everything else of staging: its other stacks, its data, its registry",
    ]
    assert there(target) == set()
    assert (
        target.client("cloudformation").describe_stacks(StackName=OTHER)["Stacks"][0]["StackStatus"]
        == "CREATE_COMPLETE"
    )

    assert shoal() == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"there is no stack {STACK} in ")
    report_serving(Workspace(reverted.root, dict(os.environ)).open("staging", local=True))
    assert capsys.readouterr() == ("", "")
