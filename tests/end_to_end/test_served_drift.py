"""`shoal drift` on an endpoint that serves a pinned release: what somebody changed behind git's
back is found.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest

from config.release import Release
from local.tests.sagemaker.account import ACCOUNT_ID, Account, archive, until
from local.tests.sagemaker.hosted import ENVIRONMENT, GOOD_MODEL, configure, settled
from shoal.verbs.assembly import SynthesisedStack
from shoal.verbs.deployed_stack import DeployedStack
from shoal.verbs.drift import Item
from shoal.verbs.drift_serving import Ask, compare
from shoal.verbs.target import Target
from tests.config.releases import RELEASE

STACK, ENDPOINT = "drifting", "drifting-endpoint"
REPOSITORY, TAG = "pytorch-inference", "2.3.0-drifting-sagemaker"
IMAGE = f"{ACCOUNT_ID}.dkr.ecr.us-east-1.amazonaws.com/{REPOSITORY}:{TAG}"
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
WEIGHTS = "0a" * 32


def resources(account: Account, container: dict[str, Any]) -> dict[str, Any]:
    """What ServingStack has of SageMaker, as far as drift is concerned."""
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": {"Fn::GetAtt": ["Model", "ModelName"]},
        "InstanceType": "ml.m5.xlarge",
        "InitialInstanceCount": 1,
        "InitialVariantWeight": 1.0,
    }
    model = {"Containers": [container], "ExecutionRoleArn": account.role}
    config = {"Fn::GetAtt": ["Config", "EndpointConfigName"]}
    return {
        "Model": {"Type": "AWS::SageMaker::Model", "Properties": model},
        "Config": {
            "Type": "AWS::SageMaker::EndpointConfig",
            "Properties": {"ProductionVariants": [variant]},
        },
        "Endpoint": {
            "Type": "AWS::SageMaker::Endpoint",
            "Properties": {"EndpointName": ENDPOINT, "EndpointConfigName": config},
        },
    }


def push(account: Account, content: str) -> str:
    """An image of that content gets the tag, which another one may have had; returns its digest."""
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "layers": [{"digest": content}]}
    pushed = account.client("ecr").put_image(
        repositoryName=REPOSITORY, imageManifest=json.dumps(manifest), imageTag=TAG
    )
    return str(pushed["image"]["imageId"]["imageDigest"])


@pytest.fixture(scope="module")
def digest(account: Account) -> Iterator[str]:
    """Of the image, in the account's own repository."""
    account.client("ecr").create_repository(repositoryName=REPOSITORY)
    yield push(account, "pinned")
    account.client("ecr").delete_repository(repositoryName=REPOSITORY, force=True)


@pytest.fixture(scope="module")
def stack(account: Account, digest: str) -> Iterator[DeployedStack]:
    """Deployed, with a model of an archive."""
    assert digest
    container = {
        "Image": IMAGE,
        "ModelDataUrl": account.put("models/drifting/model.tar.gz", GOOD_MODEL),
        "Environment": ENVIRONMENT,
    }
    template = {"Resources": resources(account, container)}
    cloudformation = account.client("cloudformation")
    cloudformation.create_stack(StackName=STACK, TemplateBody=json.dumps(template))
    cloudformation.get_waiter("stack_create_complete").wait(
        StackName=STACK, WaiterConfig={"Delay": 1, "MaxAttempts": 120}
    )
    yield DeployedStack(
        Target(ACCOUNT_ID, "us-east-1", account.endpoint, secret=account.secret),
        SynthesisedStack(STACK, template),
    )
    cloudformation.delete_stack(StackName=STACK)
    until(
        lambda: account.sagemaker.list_endpoints(NameContains=ENDPOINT)["Endpoints"],
        lambda found: not found,
    )


@pytest.fixture(scope="module")
def release(digest: str) -> Release:
    return RELEASE.model_copy(update={"content_sha256": WEIGHTS, "image_digest": digest})


def look(stack: DeployedStack, release: Release, ask: Ask | None = None) -> list[Item]:
    """Ask again, as every run of the command does."""
    return list(compare(replace(stack), release, ask))


def test_a_fresh_endpoint_has_not_drifted(stack: DeployedStack, release: Release) -> None:
    (item,) = look(stack, release)
    assert (item.kind, item.name, item.agrees) == ("endpoint", ENDPOINT, True), "\n".join(item.diff)


@pytest.mark.parametrize(("said", "agrees"), [(WEIGHTS, True), ("ff" * 32, False), (None, False)])
def test_the_content_is_the_one_that_the_container_says(
    stack: DeployedStack, release: Release, said: str | None, agrees: bool
) -> None:
    item = look(
        stack, release, lambda endpoint: {"content_sha256": said} if endpoint == ENDPOINT else {}
    )[1]
    assert (item.kind, item.agrees) == ("content", agrees)


def test_one_container_with_another_model_among_several_is_found(
    stack: DeployedStack, release: Release
) -> None:
    answers = cycle([WEIGHTS, WEIGHTS, "ff" * 32])
    item = look(stack, release, lambda _: {"content_sha256": next(answers)})[1]
    assert item.agrees is False
    assert f'+    "{"ff" * 32}"' in item.diff


def test_an_endpoint_that_was_updated_by_hand_differs_in_configuration_and_model(
    stack: DeployedStack, release: Release, account: Account
) -> None:
    before = account.sagemaker.describe_endpoint(EndpointName=ENDPOINT)["EndpointConfigName"]
    account.sagemaker.update_endpoint(
        EndpointName=ENDPOINT, EndpointConfigName=configure(account, "by-hand", GOOD_MODEL)
    )
    settled(account, ENDPOINT)
    (item,) = look(stack, release)
    account.sagemaker.update_endpoint(EndpointName=ENDPOINT, EndpointConfigName=before)
    settled(account, ENDPOINT)
    assert item.agrees is False
    assert {
        f'-  "config": "{before.lower()}",',
        '+  "config": "by-hand",',
    } <= set(item.diff), "\n".join(item.diff)
    assert any(each.startswith('+      "ModelDataUrl": ') for each in item.diff)


def test_after_a_rollback_it_agrees_and_the_old_reason_is_called_old(
    stack: DeployedStack, release: Release, account: Account
) -> None:
    broken = configure(
        account, "rolled-back", archive({"code/inference.py": b"raise SystemExit('no good')"})
    )
    account.sagemaker.update_endpoint(EndpointName=ENDPOINT, EndpointConfigName=broken)
    reason = settled(account, ENDPOINT)["FailureReason"]
    (item,) = look(stack, release)
    assert item.agrees, "\n".join(item.diff)
    assert (
        item.says == f"as pinned; SageMaker still tells why an earlier deployment failed: {reason}"
    )


def test_an_image_whose_tag_was_moved_differs_as_soon_as_it_was_deployed(
    stack: DeployedStack, release: Release, account: Account, digest: str
) -> None:
    moved = push(account, "not reviewed")
    before, _ = look(stack, release, lambda _: {"content_sha256": WEIGHTS})
    config = account.sagemaker.describe_endpoint(EndpointName=ENDPOINT)["EndpointConfigName"]
    variants = account.sagemaker.describe_endpoint_config(EndpointConfigName=config)[
        "ProductionVariants"
    ]
    account.sagemaker.create_endpoint_config(
        EndpointConfigName="again", ProductionVariants=variants
    )
    account.sagemaker.update_endpoint(EndpointName=ENDPOINT, EndpointConfigName="again")
    settled(account, ENDPOINT)
    (after,) = look(stack, release)
    assert push(account, "pinned") == digest
    account.sagemaker.update_endpoint(EndpointName=ENDPOINT, EndpointConfigName=config)
    settled(account, ENDPOINT)
    assert before.agrees, "\n".join(before.diff)
    assert {f'-    "{digest}"', f'+    "{moved}"'} <= set(after.diff), "\n".join(after.diff)


def test_an_endpoint_that_is_gone_differs(
    stack: DeployedStack, release: Release, account: Account
) -> None:
    config = account.sagemaker.describe_endpoint(EndpointName=ENDPOINT)["EndpointConfigName"]
    account.sagemaker.delete_endpoint(EndpointName=ENDPOINT)
    until(
        lambda: account.sagemaker.list_endpoints(NameContains=ENDPOINT)["Endpoints"],
        lambda found: not found,
    )
    (item,) = look(stack, release)
    account.sagemaker.create_endpoint(EndpointName=ENDPOINT, EndpointConfigName=config)
    settled(account, ENDPOINT)
    assert (item.agrees, item.says) == (False, "in git, and not there")
