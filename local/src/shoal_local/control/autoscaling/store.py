"""Scalable targets and scaling policies as values: what a request asks for goes in, what is kept
comes out, or an AwsError.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from shoal_local.errors import AwsError

NAMESPACE, DIMENSION = "sagemaker", "sagemaker:variant:DesiredInstanceCount"
RESOURCE = re.compile(r"^endpoint/(?P<endpoint>[^/]+)/variant/(?P<variant>[^/]+)$")
METRIC = "SageMakerVariantInvocationsPerInstance"
ROLE_SERVICE = "sagemaker.application-autoscaling.amazonaws.com"
ROLE_NAME = "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
_SUSPENDED = {
    "DynamicScalingInSuspended": False,
    "DynamicScalingOutSuspended": False,
    "ScheduledScalingSuspended": False,
}


@dataclass(frozen=True)
class Policy:
    """A target tracking policy of one target."""

    name: str
    arn: str
    configuration: Mapping[str, Any]
    created_at: datetime


@dataclass
class Target:
    """The instance count of one variant, between its bounds."""

    resource_id: str
    arn: str
    least: int
    most: int
    role_arn: str
    created_at: datetime
    suspended: Mapping[str, bool] = field(default_factory=lambda: dict(_SUSPENDED))
    tags: dict[str, str] = field(default_factory=dict)
    policies: dict[str, Policy] = field(default_factory=dict)
    scaled_out_at_s: float | None = None
    scaled_in_at_s: float | None = None

    @property
    def endpoint(self) -> str:
        return str(self._parts["endpoint"])

    @property
    def variant(self) -> str:
        return str(self._parts["variant"])

    @property
    def _parts(self) -> re.Match[str]:
        return found(self.resource_id)


def invalid(message: str) -> AwsError:
    return AwsError("ValidationException", message)


def found(resource_id: str) -> re.Match[str]:
    """The parts of a variant's resource id; ValidationException for another form."""
    parts = RESOURCE.match(resource_id)
    if parts is None:
        raise invalid(
            f"Unsupported resource id: {resource_id}; a variant is endpoint/NAME/variant/NAME"
        )
    return parts


def check_scope(asked: Mapping[str, Any]) -> None:
    """ValidationException for what is scaled on AWS and not here."""
    if (
        asked["ServiceNamespace"] != NAMESPACE
        or asked.get("ScalableDimension", DIMENSION) != DIMENSION
    ):
        what = f"{asked['ServiceNamespace']} {asked.get('ScalableDimension', '')}"
        raise invalid(f"Shoal's emulator scales {NAMESPACE} {DIMENSION} only, not {what}")


def registered(asked: Mapping[str, Any], old: Target | None, region: str, account: str) -> Target:
    """The target as it is after RegisterScalableTarget: what is left out stays as it is."""
    role = f"arn:aws:iam::{account}:role/aws-service-role/{ROLE_SERVICE}/{ROLE_NAME}"
    arn = f"arn:aws:application-autoscaling:{region}:{account}:scalable-target/{uuid.uuid4().hex[:24]}"  # noqa: E501
    target = old or Target(asked["ResourceId"], arn, -1, -1, role, datetime.now(UTC))
    least, most = asked.get("MinCapacity", target.least), asked.get("MaxCapacity", target.most)
    if least < 0 or most < 0:
        raise invalid("MinCapacity and MaxCapacity are required to register a scalable target")
    if least == 0:
        raise invalid(f"MinCapacity must be at least 1 for {DIMENSION} of a variant with a model")
    if least > most:
        raise invalid(f"Maximum capacity cannot be less than minimum capacity ({most} < {least})")
    target.least, target.most = least, most
    target.suspended = {**target.suspended, **asked.get("SuspendedState", {})}
    target.tags.update(asked.get("Tags") or {})
    return target


def policy_of(asked: Mapping[str, Any], old: Policy | None, region: str, account: str) -> Policy:
    """The policy that PutScalingPolicy makes; ValidationException for a kind that is not
    emulated.
    """
    configuration = asked.get("TargetTrackingScalingPolicyConfiguration")
    if (
        asked.get("PolicyType", "TargetTrackingScaling") != "TargetTrackingScaling"
        or not configuration
    ):
        raise invalid("Shoal's emulator has policies of the type TargetTrackingScaling only")
    metric = configuration.get("PredefinedMetricSpecification", {}).get("PredefinedMetricType")
    if metric != METRIC:
        raise invalid(
            f"Shoal's emulator tracks {METRIC} only, not {metric or 'a metric of your own'}"
        )
    if configuration["TargetValue"] <= 0:
        raise invalid("TargetValue must be above 0")
    resource, name = f"resource/{NAMESPACE}/{asked['ResourceId']}", asked["PolicyName"]
    arn = f"arn:aws:autoscaling:{region}:{account}:scalingPolicy:{uuid.uuid4()}:{resource}:policyName/{name}"  # noqa: E501
    return Policy(
        name, old.arn if old else arn, configuration, old.created_at if old else datetime.now(UTC)
    )
