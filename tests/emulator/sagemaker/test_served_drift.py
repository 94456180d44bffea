"""`shoal drift` on an endpoint that serves a pinned release: what somebody changed behind git's back is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from config.release import Release
from lifecycle.assembly import SynthesisedStack
from lifecycle.deployed_stack import DeployedStack
from lifecycle.drift import Item
from lifecycle.drift_serving import Ask, compare
from lifecycle.target import Target
from tests.config.test_release import RELEASE
from tests.emulator.sagemaker.account import ACCOUNT_ID, INFERENCE_IMAGE, Account, until
from tests.emulator.sagemaker.hosted import ENVIRONMENT, GOOD_MODEL, configure, settled

STACK, ENDPOINT, GROUP = "drifting", "drifting-endpoint", "drifting-group"
WEIGHTS = "0a" * 32


def resources(account: Account, package: str) -> dict[str, Any]:
    """What ServingStack has of SageMaker, as far as drift is concerned."""
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": {"Fn::GetAtt": ["Model", "ModelName"]},
        "InstanceType": "ml.m5.xlarge",
        "InitialInstanceCount": 1,
        "InitialVariantWeight": 1.0,
    }
    model = {"Containers": [{"ModelPackageName": package}], "ExecutionRoleArn": account.role}
    config = {"Fn::GetAtt": ["Config", "EndpointConfigName"]}
    return {
        "Model": {"Type": "AWS::SageMaker::Model", "Properties": model},
        "Config": {"Type": "AWS::SageMaker::EndpointConfig", "Properties": {"ProductionVariants": [variant]}},
        "Endpoint": {"Type": "AWS::SageMaker::Endpoint", "Properties": {"EndpointName": ENDPOINT, "EndpointConfigName": config}},
    }


@pytest.fixture(scope="module")
def stack(account: Account) -> Iterator[DeployedStack]:
    """Deployed, with a package of the registry."""
    container = {
        "Image": INFERENCE_IMAGE,
        "ModelDataUrl": account.put("models/drifting/model.tar.gz", GOOD_MODEL),
        "Environment": ENVIRONMENT,
    }
    account.sagemaker.create_model_package_group(ModelPackageGroupName=GROUP)
    types = {"SupportedContentTypes": ["application/json"], "SupportedResponseMIMETypes": ["application/json"]}
    package = account.sagemaker.create_model_package(
        ModelPackageGroupName=GROUP, InferenceSpecification={"Containers": [container], **types}, ModelApprovalStatus="Approved"
    )["ModelPackageArn"]
    template = {"Resources": resources(account, package)}
    cloudformation = account.client("cloudformation")
    cloudformation.create_stack(StackName=STACK, TemplateBody=json.dumps(template))
    cloudformation.get_waiter("stack_create_complete").wait(StackName=STACK, WaiterConfig={"Delay": 1, "MaxAttempts": 120})
    yield DeployedStack(Target(ACCOUNT_ID, "us-east-1", account.endpoint), SynthesisedStack(STACK, template))
    cloudformation.delete_stack(StackName=STACK)
    until(lambda: account.sagemaker.list_endpoints(NameContains=ENDPOINT)["Endpoints"], lambda found: not found)
    account.sagemaker.delete_model_package(ModelPackageName=package)
    account.sagemaker.delete_model_package_group(ModelPackageGroupName=GROUP)


def release() -> Release:
    return RELEASE.model_copy(update={"weights_sha256": WEIGHTS})


def look(stack: DeployedStack, ask: Ask | None = None) -> list[Item]:
    """Asked anew, as every run of the command asks."""
    return list(compare(replace(stack), release(), ask))


def test_a_fresh_endpoint_has_not_drifted(stack: DeployedStack) -> None:
    (item,) = look(stack)
    assert (item.kind, item.name, item.agrees) == ("endpoint", ENDPOINT, True), "\n".join(item.diff)


@pytest.mark.parametrize(("said", "agrees"), [(WEIGHTS, True), ("ff" * 32, False), (None, False)])
def test_the_weights_are_those_that_the_container_says(stack: DeployedStack, said: str | None, agrees: bool) -> None:
    item = look(stack, lambda endpoint: {"weights_sha256": said} if endpoint == ENDPOINT else {})[1]
    assert (item.kind, item.agrees) == ("weights", agrees)


def test_an_endpoint_that_was_updated_by_hand_differs_in_configuration_and_package(stack: DeployedStack, account: Account) -> None:
    before = account.sagemaker.describe_endpoint(EndpointName=ENDPOINT)["EndpointConfigName"]
    account.sagemaker.update_endpoint(EndpointName=ENDPOINT, EndpointConfigName=configure(account, "by-hand", GOOD_MODEL))
    settled(account, ENDPOINT)
    (item,) = look(stack)
    account.sagemaker.update_endpoint(EndpointName=ENDPOINT, EndpointConfigName=before)
    settled(account, ENDPOINT)
    assert item.agrees is False
    assert {f'-  "config": "{before.lower()}",', '+  "config": "by-hand",', '+  "packages": [],'} <= set(item.diff), "\n".join(item.diff)


def test_an_endpoint_that_is_gone_differs(stack: DeployedStack, account: Account, tmp_path: Path) -> None:
    account.sagemaker.delete_endpoint(EndpointName=ENDPOINT)
    until(lambda: account.sagemaker.list_endpoints(NameContains=ENDPOINT)["Endpoints"], lambda found: not found)
    (item,) = look(stack)
    assert (item.agrees, item.says) == (False, "in git, and not there")
