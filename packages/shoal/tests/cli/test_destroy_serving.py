"""`shoal destroy ENV --serving` deletes what served a reverted release, and nothing else.

Also in a protected environment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from local_kit.control import trust
from local_kit.hosted import ENVIRONMENT, GOOD_MODEL
from shoal.aws.inventory import Owner, of_environment
from shoal.aws.target import Target
from shoal.cli.commands.platform.deployment import report_serving
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.verbs.local_server import LocalServer, build_runtimes
from shoal.verbs.workspace import Workspace
from tests.cli.test_promote import promoted
from tests.cli.trained import IMAGE, Checkout, Package, Registry
from tests.repository import ROOT
from tests.verbs.conftest import ACCOUNT, make_stack

DESTROY = ("destroy", "staging", "--serving")
NAMES = Names(load_environment("staging", ROOT).model_copy(update={"account": ACCOUNT}))
STACK, ENDPOINT = NAMES.stack("serving"), NAMES.serving_endpoint
OTHER = NAMES.stack("data")
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
