"""Autoscaling of endpoints: the policy as a function, and a stack whose endpoint gets another
process when it is called a lot.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

import pytest
from botocore.exceptions import ClientError

from local.tests.sagemaker.account import Account, until
from local.tests.sagemaker.hosted import GOOD_MODEL, calling, deploy, settled
from shoal_local.control.autoscaling.tracking import Bounds, wanted
from shoal_local.server import Emulator

BOUNDS = Bounds(1, 4)
NAME = "scaled"
SCOPE = {
    "ServiceNamespace": "sagemaker",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    "ResourceId": f"endpoint/{NAME}/variant/AllTraffic",
}


@pytest.mark.parametrize(
    ("current", "values", "bounds", "count", "why"),
    [
        (
            1,
            [25, 25, 25, *[1] * 12],
            BOUNDS,
            3,
            "three periods above the target: as many as keep it",
        ),
        (1, [25, 25, 5, *[1] * 12], BOUNDS, 1, "two periods are not enough"),
        (2, [90, 90, 90, *[1] * 12], BOUNDS, 4, "never above MaxCapacity"),
        (4, [4] * 15, BOUNDS, 2, "fifteen periods below nine tenths of it: fewer"),
        (4, [4] * 14 + [9.5], BOUNDS, 4, "one busy period keeps them"),
        (4, [4] * 15, Bounds(1, 4, scales_in=False), 4, "DisableScaleIn"),
        (4, [None] * 15, BOUNDS, 4, "no traffic measures nothing, and scales nothing"),
        (6, [10] * 15, BOUNDS, 4, "back into the bounds"),
    ],
)
def test_target_tracking_wants(
    current: int, values: Sequence[float | None], bounds: Bounds, count: int, why: str
) -> None:
    assert wanted(current, values, 10.0, bounds) == count, why


def stack(account: Account, least: int) -> str:
    """A target with its policy: ten invocations per instance and minute."""
    tracked = {
        "TargetValue": "10",
        "PredefinedMetricSpecification": {
            "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"
        },
        "ScaleOutCooldown": 60,
    }
    policy = {
        "PolicyName": "invocations",
        "PolicyType": "TargetTrackingScaling",
        "ScalingTargetId": {"Ref": "Target"},
        "TargetTrackingScalingPolicyConfiguration": tracked,
    }
    target = {**SCOPE, "MinCapacity": least, "MaxCapacity": "2"}
    resources = {
        "Target": {"Type": "AWS::ApplicationAutoScaling::ScalableTarget", "Properties": target},
        "Policy": {"Type": "AWS::ApplicationAutoScaling::ScalingPolicy", "Properties": policy},
    }
    return json.dumps({"Resources": resources})


def test_an_endpoint_that_is_called_a_lot_gets_another_process(
    account: Account, emulator: Emulator
) -> None:
    deploy(account, NAME, GOOD_MODEL)
    settled(account, NAME)
    processes = len(emulator.registry.alive())
    cloudformation, scaling = (
        account.client("cloudformation"),
        account.client("application-autoscaling"),
    )
    cloudformation.create_stack(StackName=NAME, TemplateBody=stack(account, 1))
    cloudformation.get_waiter("stack_create_complete").wait(
        StackName=NAME, WaiterConfig={"Delay": 1}
    )
    (target,) = scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
    assert (target["MinCapacity"], target["MaxCapacity"]) == (1, 2)

    look = partial(account.sagemaker.describe_endpoint, EndpointName=NAME)
    with calling(account, NAME, at_once=3) as calls:
        until(
            look,
            lambda each: (
                each["ProductionVariants"][0]["CurrentInstanceCount"] == 2
                and each["EndpointStatus"] == "InService"
            ),
        )
    assert calls.failed == []
    assert len(emulator.registry.alive()) == processes + 1
    (activity,) = scaling.describe_scaling_activities(ServiceNamespace="sagemaker")[
        "ScalingActivities"
    ]
    assert activity["Description"] == "Setting desired instance count to 2."

    cloudformation.delete_stack(StackName=NAME)
    until(
        partial(scaling.describe_scalable_targets, ServiceNamespace="sagemaker"),
        lambda found: not found["ScalableTargets"],
    )
    account.sagemaker.delete_endpoint(EndpointName=NAME)
    until(lambda: len(emulator.registry.alive()), lambda left: left == processes - 1)


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        (
            {"ResourceId": "endpoint/nobody/variant/AllTraffic"},
            'Could not find endpoint "arn:aws:sagemaker:us-east-1:123456789012:endpoint/nobody"',
        ),
        ({"ResourceId": "nobody"}, "a variant is endpoint/NAME/variant/NAME"),
        ({"MinCapacity": 3}, "Maximum capacity cannot be less than minimum capacity"),
        (
            {"ServiceNamespace": "ecs"},
            "scales sagemaker sagemaker:variant:DesiredInstanceCount only",
        ),
    ],
)
def test_a_target_that_cannot_be_scaled_is_refused(
    account: Account, asked: dict[str, object], named: str
) -> None:
    with pytest.raises(ClientError, match=named):
        account.client("application-autoscaling").register_scalable_target(
            **{**SCOPE, "MinCapacity": 1, "MaxCapacity": 2, **asked}
        )
