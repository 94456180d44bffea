"""Models, endpoint configurations, endpoints and their scalable targets: as resources of a stack,
and by the API.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.control import outputs, resource
from local_kit.hosted import CODE, GOOD_MODEL, call_many, invoke, model_of, served
from local_kit.sagemaker_account import Account, archive, until
from local_kit.tables import rows, table

STACK = "served"
ENDPOINT = "of-a-stack"


def resources(account: Account, url: str, name: str = ENDPOINT) -> dict[str, Any]:
    """A model, its configuration and an endpoint; names of the first two are CloudFormation's."""
    parts: dict[str, Any] = table(__file__, "cases.yaml")["endpoint"]
    model = parts["Model"]["Properties"]
    model["ExecutionRoleArn"] = account.role
    model["PrimaryContainer"]["ModelDataUrl"] = url
    parts["Endpoint"]["Properties"]["EndpointName"] = name
    return parts


def multiplies(account: Account, name: str, factor: str) -> str:
    return account.put(f"models/{name}/model.tar.gz", model_of(factor))


def test_a_new_model_replaces_model_and_configuration_and_updates_the_endpoint_in_place(
    account: Account,
) -> None:
    control = account.control

    def names() -> list[str]:
        models = account.sagemaker.list_models(NameContains=STACK)["Models"]
        return [each["ModelName"] for each in models]

    first_url = multiplies(account, "stack-one", "3")
    arn = {"Arn": {"Value": {"Ref": "Endpoint"}}}
    created = control.stack(resources(account, first_url), STACK, Outputs=arn)
    assert created["StackStatus"] == "CREATE_COMPLETE", created
    assert outputs(created)["Arn"] == (
        f"arn:aws:sagemaker:us-east-1:123456789012:endpoint/{ENDPOINT}"
    )
    first = account.sagemaker.describe_endpoint(EndpointName=ENDPOINT)
    assert invoke(account, ENDPOINT, {"x": 1}) == {"y": 3.0}

    second_url = multiplies(account, "stack-two", "5")
    updated = control.update(STACK, resources(account, second_url))
    assert updated["StackStatus"] == "UPDATE_COMPLETE"
    second = account.sagemaker.describe_endpoint(EndpointName=ENDPOINT)
    assert second["CreationTime"] == first["CreationTime"]
    assert second["EndpointConfigName"] != first["EndpointConfigName"]
    assert invoke(account, ENDPOINT, {"x": 1}) == {"y": 5.0}
    assert len(names()) == 1, "the old model is deleted after the update"

    nonsense = resource("SSM::Parameter", "Endpoint", Type="Nonsense", Value="x")
    third_url = multiplies(account, "stack-behind", "7")
    failed = control.update(STACK, resources(account, third_url) | {"Fails": nonsense})
    assert failed["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert list(control.failures(STACK)) == ["Fails"]
    assert invoke(account, ENDPOINT, {"x": 1}) == {"y": 5.0}

    broken = account.put("models/stack-three/model.tar.gz", archive({"code/inference.py": CODE}))
    failed = control.update(STACK, resources(account, broken))
    assert failed["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert "did not pass the ping health check" in control.failures(STACK)["Endpoint"]
    assert invoke(account, ENDPOINT, {"x": 1}) == {"y": 5.0}

    control.client("cloudformation").delete_stack(StackName=STACK)
    endpoints = partial(account.sagemaker.list_endpoints, NameContains=ENDPOINT)
    until(endpoints, lambda left_over: not left_over["Endpoints"])
    until(names, lambda left_over: not left_over)


def test_an_endpoint_that_cannot_be_made_leaves_nothing_behind(account: Account) -> None:
    url = account.put("models/stack-none/model.tar.gz", archive({"code/inference.py": CODE}))
    # a name of its own: the stack of another test may still be being deleted
    stack = account.control.stack(resources(account, url, "of-no-stack"), "never-served")
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    assert account.sagemaker.list_endpoints(NameContains="of-no-stack")["Endpoints"] == []


NAME = "scaled"
SCOPE = {
    "ServiceNamespace": "sagemaker",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    "ResourceId": f"endpoint/{NAME}/variant/AllTraffic",
}
PER_INSTANCE = {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"}
TRACKING = {
    "TargetValue": 10.0,
    "PredefinedMetricSpecification": PER_INSTANCE,
    "ScaleOutCooldown": 60,
}
POLICY = {
    **SCOPE,
    "PolicyName": "invocations",
    "PolicyType": "TargetTrackingScaling",
    "TargetTrackingScalingPolicyConfiguration": TRACKING,
}


def targets(client: Any) -> list[dict[str, Any]]:
    return list(client.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"])


def policies(client: Any) -> list[dict[str, Any]]:
    return list(client.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"])


@pytest.fixture(scope="module")
def endpoint(account: Account) -> Iterator[str]:
    with served(account, NAME, GOOD_MODEL) as name:
        yield name


@pytest.fixture
def scaling(account: Account, endpoint: str) -> Iterator[Any]:
    """Yield a client; the endpoint's variant is a scalable target with a policy."""
    client = account.client("application-autoscaling")
    client.register_scalable_target(**SCOPE, MinCapacity=1, MaxCapacity=2, Tags={"team": "a"})
    client.put_scaling_policy(**POLICY)
    yield client
    if targets(client):
        client.deregister_scalable_target(**SCOPE)


def test_a_target_and_its_policy_are_described_as_they_were_put(scaling: Any) -> None:
    (target,), (policy,) = targets(scaling), policies(scaling)
    assert (target["MinCapacity"], target["MaxCapacity"]) == (1, 2)
    assert policy["TargetTrackingScalingPolicyConfiguration"] == TRACKING
    tags = scaling.list_tags_for_resource(ResourceARN=target["ScalableTargetARN"])["Tags"]
    assert tags == {"team": "a"}


def test_registering_again_changes_only_what_it_names(scaling: Any) -> None:
    (before,) = targets(scaling)
    scaling.register_scalable_target(**SCOPE, MaxCapacity=3)
    (after,) = targets(scaling)
    assert after == before | {"MaxCapacity": 3}
    assert len(policies(scaling)) == 1


def test_nothing_scales_by_itself(account: Account, scaling: Any) -> None:
    """The variant is below MinCapacity and called more than the policy's target."""
    scaling.register_scalable_target(**SCOPE, MinCapacity=2)
    assert call_many(account, NAME, 60).failed == []
    (variant,) = account.sagemaker.describe_endpoint(EndpointName=NAME)["ProductionVariants"]
    assert variant["DesiredInstanceCount"] == 1


def test_a_policy_and_a_target_with_its_policies_are_deleted_once(scaling: Any) -> None:
    policy = {**SCOPE, "PolicyName": "invocations"}
    scaling.delete_scaling_policy(**policy)
    assert policies(scaling) == []
    with pytest.raises(scaling.exceptions.ObjectNotFoundException):
        scaling.delete_scaling_policy(**policy)
    scaling.put_scaling_policy(**POLICY)
    scaling.deregister_scalable_target(**SCOPE)
    assert (targets(scaling), policies(scaling)) == ([], [])
    with pytest.raises(scaling.exceptions.ObjectNotFoundException):
        scaling.deregister_scalable_target(**SCOPE)


def test_a_policy_that_is_not_kept_is_refused(scaling: Any) -> None:
    step = {**SCOPE, "PolicyName": "steps", "PolicyType": "StepScaling"}
    with pytest.raises(ClientError, match="policies of the type TargetTrackingScaling only"):
        scaling.put_scaling_policy(**step, StepScalingPolicyConfiguration={})


@pytest.mark.usefixtures("endpoint")
def test_a_stack_makes_and_deletes_target_and_policy(account: Account) -> None:
    parts = table(__file__, "cases.yaml")["scaling"]
    assert account.control.stack(parts, NAME)["StackStatus"] == "CREATE_COMPLETE"
    client = account.client("application-autoscaling")
    (made,), (followed,) = targets(client), policies(client)
    assert (made["MinCapacity"], followed["PolicyName"]) == (1, "invocations")
    account.client("cloudformation").delete_stack(StackName=NAME)
    until(partial(targets, client), lambda left: not left)


def test_an_endpoint_that_is_deleted_takes_its_target_and_policy_along(
    account: Account, scaling: Any
) -> None:
    """Names are the same in any case, and this one is the beginning of another's."""
    with served(account, NAME[:-1], GOOD_MODEL) as name:
        scope = SCOPE | {"ResourceId": f"endpoint/{name.upper()}/variant/AllTraffic"}
        scaling.register_scalable_target(**scope, MinCapacity=1, MaxCapacity=2)
        scaling.put_scaling_policy(**POLICY | scope)
    until(partial(targets, scaling), lambda left: len(left) < 2)
    left = [each["ResourceId"] for each in (*targets(scaling), *policies(scaling))]
    assert left == [SCOPE["ResourceId"]] * 2


@pytest.mark.parametrize(("changes", "reason"), rows(__file__, "cases.yaml", "hosting_stacks"))
def test_a_target_that_is_not_kept_is_refused(
    account: Account, changes: dict[str, object], reason: str
) -> None:
    with pytest.raises(ClientError, match=reason):
        account.client("application-autoscaling").register_scalable_target(
            **{**SCOPE, "MinCapacity": 1, "MaxCapacity": 2, **changes}
        )
