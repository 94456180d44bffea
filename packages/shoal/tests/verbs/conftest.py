"""One real shoal-local for the whole folder, and small helpers."""

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.control import make_role, trust, zipped
from shoal.aws.execution import Pipeline
from shoal.aws.target import Target
from shoal.verbs.local_server import LocalServer
from tests.repository import ROOT

ACCOUNT, REGION = "111122223333", "us-east-1"


def started(folder: Path, *other_accounts: str) -> Iterator[LocalServer]:
    """Start a shoal-local that plays ACCOUNT and others, and shut it down at the end."""
    local_server = LocalServer(ROOT, folder / "state", folder / "emulator.log", os.environ)
    local_server.start(ACCOUNT, REGION, other_accounts=other_accounts)
    yield local_server
    local_server.shut_down()


@pytest.fixture(scope="session")
def local_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    yield from started(tmp_path_factory.mktemp("emulator"))


@pytest.fixture(scope="session")
def target(local_server: LocalServer) -> Target:
    return local_server.require().target


@pytest.fixture
def bucket(target: Target) -> str:
    name = f"test-{uuid.uuid4().hex[:12]}"
    target.client("s3").create_bucket(Bucket=name)
    return name


PARAMETER = {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": "x"}}


def make_stack(
    target: Target, name: str, resources: dict[str, Any] | None = None, **options: Any
) -> str:
    """Create a stack with one resource, or these, and return its name when it is complete.

    `options` are further keys of the template (with a capital) and CreateStack's own.
    """
    cloudformation = target.client("cloudformation")
    template = {"Resources": resources or {"One": PARAMETER}}
    template |= {key: options.pop(key) for key in ("Outputs",) if key in options}
    cloudformation.create_stack(StackName=name, TemplateBody=json.dumps(template), **options)
    waiter = cloudformation.get_waiter("stack_create_complete")
    waiter.wait(StackName=name, WaiterConfig={"Delay": 0.2, "MaxAttempts": 600})
    return name


def delete_stack(target: Target, name: str) -> None:
    cloudformation = target.client("cloudformation")
    cloudformation.delete_stack(StackName=name)
    waiter = cloudformation.get_waiter("stack_delete_complete")
    waiter.wait(StackName=name, WaiterConfig={"Delay": 0.2, "MaxAttempts": 600})


def refusing(target: Target, *operations: str, code: str = "AccessDenied") -> Target:
    """Return the same account for a caller that may not do these operations."""
    limited = replace(target)

    def refuse(model: Any, **_: Any) -> None:
        raise ClientError({"Error": {"Code": code, "Message": "not you"}}, model.name)

    for each in operations:
        limited.listen(f"before-call.*.{each}", refuse)
    return limited


def make_pipeline(
    target: Target,
    steps: list[dict[str, Any]],
    parameters: list[dict[str, Any]] | None = None,
    name: str = "",
) -> Pipeline:
    """Make a pipeline whose steps run no containers, under a role that SageMaker may assume."""
    name = name or f"test-{uuid.uuid4().hex[:8]}"
    document, iam = trust({"Service": "sagemaker.amazonaws.com"}), target.client("iam")
    with suppress(iam.exceptions.EntityAlreadyExistsException):  # of a pipeline that is gone
        iam.create_role(RoleName=f"{name}-role", AssumeRolePolicyDocument=document)
    role = iam.get_role(RoleName=f"{name}-role")["Role"]["Arn"]
    definition = {"Version": "2020-12-01", "Metadata": {}, "Parameters": parameters or []}
    definition["Steps"] = steps
    target.client("sagemaker").create_pipeline(
        PipelineName=name,
        PipelineDefinition=json.dumps(definition),
        RoleArn=role,
        ClientRequestToken=uuid.uuid4().hex,
    )
    return Pipeline(target, name)


_SLOW = """
import json, os, time, urllib.request

def handler(event, context):
    while not os.path.exists(event["ResourceProperties"]["Until"]):
        time.sleep(0.05)
    same = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    answer = json.dumps({**same, "Status": "SUCCESS", "PhysicalResourceId": "slow"}).encode()
    request = urllib.request.Request(event["ResponseURL"], data=answer, method="PUT", headers={"Content-Type": ""})
    urllib.request.urlopen(request).close()
"""  # noqa: E501


def slow(target: Target, until: Path) -> dict[str, Any]:
    """Return a custom resource, with a function and a role of its own, which is there once the file
    `until` is: a test sees its stack in the middle of an operation.
    """
    role = make_role(target.client("iam"), "slow", {"Service": "lambda.amazonaws.com"})
    settings = {
        "Runtime": "python3.12",
        "Handler": "main.handler",
        "Role": role,
        "Timeout": 60,
    }
    function = target.client("lambda").create_function(
        FunctionName="slow", Code={"ZipFile": zipped(_SLOW)}, **settings
    )
    properties = {"ServiceToken": function["FunctionArn"], "Until": str(until)}
    return {"Type": "Custom::Slow", "Properties": properties}
