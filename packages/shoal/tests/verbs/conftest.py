"""One real shoal-local for the whole folder, and small helpers."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from shoal.aws.execution import Pipeline
from shoal.aws.target import Target
from shoal.verbs.local_server import LocalServer
from tests.repository import ROOT

ACCOUNT, REGION = "111122223333", "us-east-1"


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("emulator")
    local_server = LocalServer(ROOT, folder / "state", folder / "emulator.log", os.environ)
    yield local_server.start(ACCOUNT, REGION).target
    local_server.shut_down()


@pytest.fixture
def bucket(target: Target) -> str:
    name = f"test-{uuid.uuid4().hex[:12]}"
    target.client("s3").create_bucket(Bucket=name)
    return name


PARAMETER = {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": "x"}}


def make_stack(target: Target, name: str, resource: dict[str, Any] = PARAMETER) -> str:
    """Create a stack with one resource, and return its name when it is complete."""
    cloudformation = target.client("cloudformation")
    body = json.dumps({"Resources": {"One": resource}})
    cloudformation.create_stack(StackName=name, TemplateBody=body)
    waiter = cloudformation.get_waiter("stack_create_complete")
    waiter.wait(StackName=name, WaiterConfig={"Delay": 1})
    return name


def delete_stack(target: Target, name: str) -> None:
    cloudformation = target.client("cloudformation")
    cloudformation.delete_stack(StackName=name)
    waiter = cloudformation.get_waiter("stack_delete_complete")
    waiter.wait(StackName=name, WaiterConfig={"Delay": 1})


def make_pipeline(
    target: Target,
    steps: list[dict[str, Any]],
    parameters: list[dict[str, Any]] | None = None,
    name: str = "",
) -> Pipeline:
    """Make a pipeline whose steps run no containers, under a role that SageMaker may assume."""
    name = name or f"test-{uuid.uuid4().hex[:8]}"
    trust = {
        "Effect": "Allow",
        "Principal": {"Service": "sagemaker.amazonaws.com"},
        "Action": "sts:AssumeRole",
    }
    role = target.client("iam").create_role(
        RoleName=f"{name}-role",
        AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]}),
    )["Role"]["Arn"]
    definition = {
        "Version": "2020-12-01",
        "Metadata": {},
        "Parameters": parameters or [],
        "Steps": steps,
    }
    target.client("sagemaker").create_pipeline(
        PipelineName=name,
        PipelineDefinition=json.dumps(definition),
        RoleArn=role,
        ClientRequestToken=uuid.uuid4().hex,
    )
    return Pipeline(target, name)
