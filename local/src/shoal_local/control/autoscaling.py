"""Application Auto Scaling: targets and policies of endpoints' variants are kept, not done.

The API registers, describes, tags and deletes them, so that stacks and teardown work as on AWS.
Nothing scales by itself: no metric is watched, no alarm and no service-linked role is made, and
DescribeScalingActivities is always empty.

The store is ours, not moto's: moto lacks tags and activities, keeps a target's policies after
deregistration, and says ValidationException where AWS says ObjectNotFoundException.
"""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from shoal_local.control.clients import Clients
from shoal_local.control.identity import Identity
from shoal_local.control.protocol import ApiCall
from shoal_local.errors import AwsError

NAMESPACE, DIMENSION = "sagemaker", "sagemaker:variant:DesiredInstanceCount"
ROLE = (
    "aws-service-role/sagemaker.application-autoscaling.amazonaws.com"
    "/AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
)
_RESOURCE_ID = re.compile(r"endpoint/(?P<endpoint>[^/]+)/variant/(?P<variant>[^/]+)")
_SUSPENDED_STATE = {
    "DynamicScalingInSuspended": False,
    "DynamicScalingOutSuspended": False,
    "ScheduledScalingSuspended": False,
}


@dataclass(frozen=True)
class Policy:
    """A target tracking policy of one scalable target."""

    name: str
    arn: str
    configuration: Mapping[str, Any]
    created_at: datetime


@dataclass
class Target:
    """The bounds that were registered for the instance count of one variant."""

    resource_id: str
    endpoint: str
    variant: str
    arn: str
    min_capacity: int
    max_capacity: int
    created_at: datetime
    suspended_state: dict[str, bool] = field(default_factory=lambda: dict(_SUSPENDED_STATE))
    tags: dict[str, str] = field(default_factory=dict)
    policies: dict[str, Policy] = field(default_factory=dict)


class AutoScaling:
    """The scalable targets of one account and region."""

    def __init__(self, identity: Identity, clients: Clients) -> None:
        self._identity, self._clients = identity, clients
        self._targets: dict[str, Target] = {}
        self._lock = threading.RLock()

    @property
    def operations(self) -> dict[str, Callable[[ApiCall], Mapping[str, Any]]]:
        """Return the handlers by operation; every other operation is refused."""
        return {
            "RegisterScalableTarget": self._register,
            "DeregisterScalableTarget": self._deregister,
            "DescribeScalableTargets": self._describe_targets,
            "PutScalingPolicy": self._put_policy,
            "DeleteScalingPolicy": self._delete_policy,
            "DescribeScalingPolicies": self._describe_policies,
            "DescribeScalingActivities": lambda _call: {"ScalingActivities": []},
            "TagResource": self._tag,
            "UntagResource": self._untag,
            "ListTagsForResource": lambda call: {"Tags": dict(self._tagged(call).tags)},
        }

    def has_target(self, endpoint: str) -> bool:
        """Return whether a variant of the endpoint is a scalable target.

        SageMaker's names are the same in any case.
        """
        return any(
            target.endpoint.lower() == endpoint.lower() for target in self._targets.copy().values()
        )

    def on_event(self, entry: Mapping[str, Any]) -> None:
        """Deregister the targets of an endpoint when an event says that it is being deleted.

        Source: SageMaker developer guide, "Delete endpoints configured for auto scaling". Whether
        the caller of DeleteEndpoint may do so is checked before.
        """
        if entry["detail-type"] != "SageMaker Endpoint State Change":
            return
        detail = entry["detail"]
        if detail.get("EndpointStatus") != "DELETING":
            return
        with self._lock:
            self._targets = {
                id_: target
                for id_, target in self._targets.items()
                if target.endpoint.lower() != detail["EndpointName"].lower()
            }

    def _register(self, call: ApiCall) -> Mapping[str, Any]:
        """Keep a new target, or change an old one: what the request leaves out stays as it is."""
        request = call.parameters
        _check_scope(request)
        with self._lock:
            target = self._targets.get(request["ResourceId"]) or self._new_target(
                request["ResourceId"]
            )
            min_capacity = request.get("MinCapacity", target.min_capacity)
            max_capacity = request.get("MaxCapacity", target.max_capacity)
            _check_capacities(min_capacity, max_capacity)
            self._check_variant(target)
            target.min_capacity, target.max_capacity = min_capacity, max_capacity
            target.suspended_state |= request.get("SuspendedState", {})
            target.tags |= request.get("Tags") or {}
            self._targets[target.resource_id] = target
        return {"ScalableTargetARN": target.arn}

    def _new_target(self, resource_id: str) -> Target:
        parts = _RESOURCE_ID.fullmatch(resource_id)
        if parts is None:
            raise _invalid(
                f"Unsupported resource id: {resource_id}; a variant is endpoint/NAME/variant/NAME"
            )
        where = f"{self._identity.region}:{self._identity.account}"
        arn = f"arn:aws:application-autoscaling:{where}:scalable-target/{uuid.uuid4().hex[:24]}"
        return Target(
            resource_id, parts["endpoint"], parts["variant"], arn, -1, -1, datetime.now(UTC)
        )

    def _check_variant(self, target: Target) -> None:
        """Raise ValidationException unless the endpoint has the variant, with instances."""
        try:
            endpoint = self._clients("sagemaker").describe_endpoint(EndpointName=target.endpoint)
        except ClientError as missing:
            raise _invalid(missing.response["Error"]["Message"]) from missing
        if not any(
            variant["VariantName"] == target.variant and "DesiredInstanceCount" in variant
            for variant in endpoint.get("ProductionVariants", [])
        ):
            raise _invalid(
                f"Endpoint {target.endpoint} has no variant {target.variant} with instances"
            )

    def _deregister(self, call: ApiCall) -> Mapping[str, Any]:
        """Delete a target with its policies (API reference, DeregisterScalableTarget)."""
        with self._lock:
            del self._targets[self._target(call.parameters).resource_id]
        return {}

    def _target(self, request: Mapping[str, Any]) -> Target:
        _check_scope(request)
        target = self._targets.get(request["ResourceId"])
        if target is None:
            where = (
                f"service namespace: {NAMESPACE}, resource ID: {request['ResourceId']}, scalable"
                f" dimension: {DIMENSION}"
            )
            raise AwsError("ObjectNotFoundException", f"No scalable target registered for {where}")
        return target

    def _describe_targets(self, call: ApiCall) -> Mapping[str, Any]:
        ids = call.parameters.get("ResourceIds")
        return {
            "ScalableTargets": [
                self._target_document(target)
                for target in self._all(call)
                if not ids or target.resource_id in ids
            ]
        }

    def _all(self, call: ApiCall) -> list[Target]:
        return (
            list(self._targets.values()) if call.parameters["ServiceNamespace"] == NAMESPACE else []
        )

    def _target_document(self, target: Target) -> dict[str, Any]:
        return {
            "ServiceNamespace": NAMESPACE,
            "ResourceId": target.resource_id,
            "ScalableDimension": DIMENSION,
            "MinCapacity": target.min_capacity,
            "MaxCapacity": target.max_capacity,
            "RoleARN": f"arn:aws:iam::{self._identity.account}:role/{ROLE}",
            "CreationTime": target.created_at,
            "SuspendedState": dict(target.suspended_state),
            "ScalableTargetARN": target.arn,
        }

    def _put_policy(self, call: ApiCall) -> Mapping[str, Any]:
        request = call.parameters
        configuration = _tracking(request)
        with self._lock:
            target, name = self._target(request), request["PolicyName"]
            previous = target.policies.get(name)
            where = f"{self._identity.region}:{self._identity.account}"
            of = f"resource/{NAMESPACE}/{target.resource_id}:policyName/{name}"
            policy = Policy(
                name,
                previous.arn
                if previous
                else f"arn:aws:autoscaling:{where}:scalingPolicy:{uuid.uuid4()}:{of}",
                configuration,
                previous.created_at if previous else datetime.now(UTC),
            )
            target.policies[name] = policy
        return {"PolicyARN": policy.arn, "Alarms": []}

    def _delete_policy(self, call: ApiCall) -> Mapping[str, Any]:
        with self._lock:
            target, name = self._target(call.parameters), call.parameters["PolicyName"]
            if name not in target.policies:
                raise AwsError(
                    "ObjectNotFoundException",
                    f"No scaling policy found for {name} of {target.resource_id}",
                )
            del target.policies[name]
        return {}

    def _describe_policies(self, call: ApiCall) -> Mapping[str, Any]:
        names = call.parameters.get("PolicyNames")
        resource_id = call.parameters.get("ResourceId")
        return {
            "ScalingPolicies": [
                _policy_document(target, policy)
                for target in self._all(call)
                for policy in target.policies.values()
                if resource_id in {None, target.resource_id} and (not names or policy.name in names)
            ]
        }

    def _tagged(self, call: ApiCall) -> Target:
        for target in self._targets.values():
            if target.arn == call.parameters["ResourceARN"]:
                return target
        raise AwsError(
            "ResourceNotFoundException",
            f"There is no scalable target {call.parameters['ResourceARN']}",
        )

    def _tag(self, call: ApiCall) -> Mapping[str, Any]:
        self._tagged(call).tags.update(call.parameters["Tags"])
        return {}

    def _untag(self, call: ApiCall) -> Mapping[str, Any]:
        for key in call.parameters["TagKeys"]:
            self._tagged(call).tags.pop(key, None)
        return {}


def _invalid(message: str) -> AwsError:
    return AwsError("ValidationException", message)


def _check_scope(request: Mapping[str, Any]) -> None:
    """Refuse what can be scaled on AWS and is not kept here."""
    dimension = request.get("ScalableDimension", DIMENSION)
    if request["ServiceNamespace"] != NAMESPACE or dimension != DIMENSION:
        what = f"{request['ServiceNamespace']} {request.get('ScalableDimension', '')}"
        raise _invalid(
            f"Shoal's emulator keeps targets of {NAMESPACE} {DIMENSION} only, not {what}"
        )


def _check_capacities(min_capacity: int, max_capacity: int) -> None:
    if min_capacity < 0 or max_capacity < 0:
        raise _invalid("MinCapacity and MaxCapacity are required to register a scalable target")
    if min_capacity == 0:
        raise _invalid(f"MinCapacity must be at least 1 for {DIMENSION} of a variant with a model")
    if min_capacity > max_capacity:
        raise _invalid(
            f"Maximum capacity cannot be less than minimum capacity"
            f" ({max_capacity} < {min_capacity})"
        )


def _tracking(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the configuration of a target tracking policy; refuse every other type by name."""
    configuration: Mapping[str, Any] | None = request.get(
        "TargetTrackingScalingPolicyConfiguration"
    )
    kind = request.get("PolicyType", "TargetTrackingScaling")
    if kind != "TargetTrackingScaling" or not configuration:
        raise _invalid("Shoal's emulator has policies of the type TargetTrackingScaling only")
    if configuration["TargetValue"] <= 0:
        raise _invalid("TargetValue must be above 0")
    return configuration


def _policy_document(target: Target, policy: Policy) -> dict[str, Any]:
    return {
        "PolicyARN": policy.arn,
        "PolicyName": policy.name,
        "ServiceNamespace": NAMESPACE,
        "ResourceId": target.resource_id,
        "ScalableDimension": DIMENSION,
        "PolicyType": "TargetTrackingScaling",
        "TargetTrackingScalingPolicyConfiguration": dict(policy.configuration),
        "Alarms": [],
        "CreationTime": policy.created_at,
    }
