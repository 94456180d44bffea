"""Models, endpoint configurations and endpoints as resources of a stack."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from local_kit.hosted import invoke
from local_kit.sagemaker_account import INFERENCE_IMAGE, PROGRAMS, Account, archive, until

STACK = "served"
ENDPOINT = "of-a-stack"
CODE = (PROGRAMS / "inference.py").read_bytes()


def template(account: Account, url: str, name: str = ENDPOINT) -> str:
    """A model, its configuration and an endpoint; names of the first two are CloudFormation's."""
    environment = {
        "SAGEMAKER_PROGRAM": "inference.py",
        "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code",
    }
    container = {"Image": INFERENCE_IMAGE, "ModelDataUrl": url, "Environment": environment}
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": {"Fn::GetAtt": ["Model", "ModelName"]},
        "InstanceType": "ml.m5.xlarge",
        "InitialInstanceCount": "1",
        "InitialVariantWeight": 1,
    }
    config = {"Fn::GetAtt": ["Config", "EndpointConfigName"]}
    resources = {
        "Model": {
            "Type": "AWS::SageMaker::Model",
            "Properties": {"PrimaryContainer": container, "ExecutionRoleArn": account.role},
        },
        "Config": {
            "Type": "AWS::SageMaker::EndpointConfig",
            "Properties": {"ProductionVariants": [variant]},
        },
        "Endpoint": {
            "Type": "AWS::SageMaker::Endpoint",
            "Properties": {"EndpointName": name, "EndpointConfigName": config},
        },
    }
    return json.dumps({"Resources": resources, "Outputs": {"Arn": {"Value": {"Ref": "Endpoint"}}}})


def stack(account: Account, name: str = STACK) -> dict[str, Any]:
    """Return the stack once nothing is being done to it."""
    look = partial(account.client("cloudformation").describe_stacks, StackName=name)
    (described,) = until(
        look, lambda answer: not answer["Stacks"][0]["StackStatus"].endswith("_IN_PROGRESS")
    )["Stacks"]
    return dict(described)


def put(account: Account, name: str, factor: bytes) -> str:
    return account.put(
        f"models/{name}/model.tar.gz", archive({"model.txt": factor, "code/inference.py": CODE})
    )


def test_a_new_model_replaces_model_and_configuration_and_updates_the_endpoint_in_place(
    account: Account,
) -> None:
    cloudformation = account.client("cloudformation")
    cloudformation.create_stack(
        StackName=STACK, TemplateBody=template(account, put(account, "stack-one", b"3"))
    )
    created = stack(account)
    assert created["StackStatus"] == "CREATE_COMPLETE", created
    assert (
        created["Outputs"][0]["OutputValue"]
        == f"arn:aws:sagemaker:us-east-1:123456789012:endpoint/{ENDPOINT}"
    )
    first = account.sagemaker.describe_endpoint(EndpointName=ENDPOINT)
    assert invoke(account, ENDPOINT, {"x": 1}) == {"y": 3.0}

    cloudformation.update_stack(
        StackName=STACK, TemplateBody=template(account, put(account, "stack-two", b"5"))
    )
    assert stack(account)["StackStatus"] == "UPDATE_COMPLETE"
    second = account.sagemaker.describe_endpoint(EndpointName=ENDPOINT)
    assert second["CreationTime"] == first["CreationTime"]
    assert second["EndpointConfigName"] != first["EndpointConfigName"]
    assert invoke(account, ENDPOINT, {"x": 1}) == {"y": 5.0}
    names = [
        each["ModelName"] for each in account.sagemaker.list_models(NameContains=STACK)["Models"]
    ]
    assert len(names) == 1, "the old model is deleted after the update"

    broken = template(
        account,
        account.put("models/stack-three/model.tar.gz", archive({"code/inference.py": CODE})),
    )
    cloudformation.update_stack(StackName=STACK, TemplateBody=broken)
    assert stack(account)["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    events = cloudformation.describe_stack_events(StackName=STACK)["StackEvents"]
    reasons = [
        each["ResourceStatusReason"] for each in events if each["ResourceStatus"] == "UPDATE_FAILED"
    ]
    assert "did not pass the ping health check" in reasons[0]
    assert invoke(account, ENDPOINT, {"x": 1}) == {"y": 5.0}

    cloudformation.delete_stack(StackName=STACK)
    until(
        lambda: account.sagemaker.list_endpoints(NameContains=ENDPOINT)["Endpoints"],
        lambda left_over: not left_over,
    )
    until(
        lambda: account.sagemaker.list_models(NameContains=STACK)["Models"],
        lambda left_over: not left_over,
    )


def test_an_endpoint_that_cannot_be_made_leaves_nothing_behind(account: Account) -> None:
    url = account.put("models/stack-none/model.tar.gz", archive({"code/inference.py": CODE}))
    # a name of its own: the stack of another test may still be being deleted
    account.client("cloudformation").create_stack(
        StackName="never-served", TemplateBody=template(account, url, "of-no-stack")
    )
    assert stack(account, "never-served")["StackStatus"] == "ROLLBACK_COMPLETE"
    assert account.sagemaker.list_endpoints(NameContains="of-no-stack")["Endpoints"] == []


def test_an_endpoint_without_its_configuration_fails_by_the_property(account: Account) -> None:
    body = json.dumps(
        {
            "Resources": {
                "Endpoint": {
                    "Type": "AWS::SageMaker::Endpoint",
                    "Properties": {"EndpointName": "none"},
                }
            }
        }
    )
    account.client("cloudformation").create_stack(StackName="incomplete", TemplateBody=body)
    assert stack(account, "incomplete")["StackStatus"] == "ROLLBACK_COMPLETE"
    events = account.client("cloudformation").describe_stack_events(StackName="incomplete")[
        "StackEvents"
    ]
    assert any("EndpointConfigName" in each.get("ResourceStatusReason", "") for each in events)
