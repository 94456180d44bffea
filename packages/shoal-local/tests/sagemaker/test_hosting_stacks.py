"""Models, endpoint configurations and endpoints as resources of a stack."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from local_kit.hosted import CODE, ENVIRONMENT, invoke
from local_kit.sagemaker_account import INFERENCE_IMAGE, Account, archive, until

STACK = "served"
ENDPOINT = "of-a-stack"


def template(account: Account, url: str, name: str = ENDPOINT) -> str:
    """A model, its configuration and an endpoint; names of the first two are CloudFormation's."""
    container = {"Image": INFERENCE_IMAGE, "ModelDataUrl": url, "Environment": ENVIRONMENT}
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": {"Fn::GetAtt": ["Model", "ModelName"]},
        "InstanceType": "ml.m5.xlarge",
        "InitialInstanceCount": "1",
        "InitialVariantWeight": 1,
    }
    config = {"Fn::GetAtt": ["Config", "EndpointConfigName"]}
    properties = {
        "Model": {"PrimaryContainer": container, "ExecutionRoleArn": account.role},
        "EndpointConfig": {"ProductionVariants": [variant]},
        "Endpoint": {"EndpointName": name, "EndpointConfigName": config},
    }
    resources = {
        noun.removeprefix("Endpoint") or "Endpoint": {
            "Type": f"AWS::SageMaker::{noun}",
            "Properties": members,
        }
        for noun, members in properties.items()
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

    def names() -> list[str]:
        models = account.sagemaker.list_models(NameContains=STACK)["Models"]
        return [each["ModelName"] for each in models]

    first_body = template(account, put(account, "stack-one", b"3"))
    cloudformation.create_stack(StackName=STACK, TemplateBody=first_body)
    created = stack(account)
    assert created["StackStatus"] == "CREATE_COMPLETE", created
    arn = f"arn:aws:sagemaker:us-east-1:123456789012:endpoint/{ENDPOINT}"
    assert created["Outputs"][0]["OutputValue"] == arn
    first = account.sagemaker.describe_endpoint(EndpointName=ENDPOINT)
    assert invoke(account, ENDPOINT, {"x": 1}) == {"y": 3.0}

    second_body = template(account, put(account, "stack-two", b"5"))
    cloudformation.update_stack(StackName=STACK, TemplateBody=second_body)
    assert stack(account)["StackStatus"] == "UPDATE_COMPLETE"
    second = account.sagemaker.describe_endpoint(EndpointName=ENDPOINT)
    assert second["CreationTime"] == first["CreationTime"]
    assert second["EndpointConfigName"] != first["EndpointConfigName"]
    assert invoke(account, ENDPOINT, {"x": 1}) == {"y": 5.0}
    assert len(names()) == 1, "the old model is deleted after the update"

    broken = account.put("models/stack-three/model.tar.gz", archive({"code/inference.py": CODE}))
    cloudformation.update_stack(StackName=STACK, TemplateBody=template(account, broken))
    assert stack(account)["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    events = cloudformation.describe_stack_events(StackName=STACK)["StackEvents"]
    failed = [each for each in events if each["ResourceStatus"] == "UPDATE_FAILED"]
    assert "did not pass the ping health check" in failed[0]["ResourceStatusReason"]
    assert invoke(account, ENDPOINT, {"x": 1}) == {"y": 5.0}

    cloudformation.delete_stack(StackName=STACK)
    endpoints = partial(account.sagemaker.list_endpoints, NameContains=ENDPOINT)
    until(endpoints, lambda left_over: not left_over["Endpoints"])
    until(names, lambda left_over: not left_over)


def test_an_endpoint_that_cannot_be_made_leaves_nothing_behind(account: Account) -> None:
    url = account.put("models/stack-none/model.tar.gz", archive({"code/inference.py": CODE}))
    # a name of its own: the stack of another test may still be being deleted
    account.client("cloudformation").create_stack(
        StackName="never-served", TemplateBody=template(account, url, "of-no-stack")
    )
    assert stack(account, "never-served")["StackStatus"] == "ROLLBACK_COMPLETE"
    assert account.sagemaker.list_endpoints(NameContains="of-no-stack")["Endpoints"] == []
