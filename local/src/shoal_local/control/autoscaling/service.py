"""The API of Application Auto Scaling: calls in, descriptions of targets, policies and activities
out. A thread of its own reads what the variants measured and changes their instance counts by
UpdateEndpointWeightsAndCapacities, with the service-linked role.

The clock of periods and cooldowns is as many times faster as hosting's.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shoal_local.control.alarms import ENDPOINTS, Alarms, Metric
from shoal_local.control.autoscaling import store
from shoal_local.control.autoscaling.store import (
    DIMENSION,
    NAMESPACE,
    ROLE_NAME,
    ROLE_SERVICE,
    Policy,
    Target,
    check_scope,
)
from shoal_local.control.autoscaling.tracking import IN_PERIODS, Bounds, wanted
from shoal_local.control.clients import Clients
from shoal_local.control.identity import Identity
from shoal_local.control.protocol import ApiCall
from shoal_local.errors import AwsError

PERIOD_S = 60.0
COOLDOWN_S = 300.0
LOOK_S = 0.5
ACTIONS = (
    "sagemaker:DescribeEndpoint",
    "sagemaker:DescribeEndpointConfig",
    "sagemaker:UpdateEndpointWeightsAndCapacities",
)
_log = logging.getLogger(__name__)


class AutoScaling:
    """The scalable targets of one account and region."""

    def __init__(self, identity: Identity, clients: Clients, alarms: Alarms, speed: float) -> None:
        self._identity, self._clients, self._alarms, self._speed = identity, clients, alarms, speed
        self._targets: dict[str, Target] = {}
        self._activities: list[dict[str, Any]] = []
        self._lock = threading.RLock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def operations(self) -> dict[str, Callable[[ApiCall], Mapping[str, Any]]]:
        """Everything that is emulated."""
        return {
            "RegisterScalableTarget": self._register,
            "DeregisterScalableTarget": self._deregister,
            "DescribeScalableTargets": self._describe_targets,
            "PutScalingPolicy": self._put_policy,
            "DeleteScalingPolicy": self._delete_policy,
            "DescribeScalingPolicies": self._describe_policies,
            "DescribeScalingActivities": self._describe_activities,
            "TagResource": lambda call: (
                self._tagged(call).tags.update(call.parameters["Tags"]) or {}
            ),
            "UntagResource": self._untag,
            "ListTagsForResource": lambda call: {"Tags": dict(self._tagged(call).tags)},
        }

    def scales(self, endpoint: str) -> bool:
        """Whether a variant of the endpoint is a scalable target.

        SageMaker's names are the same in any case.
        """
        return any(
            target.endpoint.lower() == endpoint.lower() for target in self._targets.copy().values()
        )

    def heed(self, entry: Mapping[str, Any]) -> None:
        """An event of SageMaker's: the targets of an endpoint that is being deleted are
        deregistered.

        Source: SageMaker developer guide, "Delete endpoints configured for auto scaling"; that the
        caller may is asked before.
        """
        detail = (
            entry["detail"] if entry["detail-type"] == "SageMaker Endpoint State Change" else {}
        )
        if detail.get("EndpointStatus") == "DELETING":
            with self._lock:
                for target in [
                    each
                    for each in self._targets.values()
                    if each.endpoint.lower() == detail["EndpointName"].lower()
                ]:
                    del self._targets[target.resource_id]

    def close(self) -> None:
        """Scale nothing more."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def _register(self, call: ApiCall) -> Mapping[str, Any]:
        asked = call.parameters
        check_scope(asked)
        with self._lock:
            old = self._targets.get(asked["ResourceId"])
            target = store.registered(asked, old, self._identity.region, self._identity.account)
            self._current(target)
            self._targets[target.resource_id] = target
            self._make_role()
            self._begin()
        return {"ScalableTargetARN": target.arn}

    def _current(self, target: Target) -> tuple[str, int]:
        """The endpoint's status and the variant's instance count; ValidationException where there
        is no such variant with instances.
        """
        try:
            endpoint = self._clients("sagemaker").describe_endpoint(EndpointName=target.endpoint)
        except ClientError as missing:
            raise store.invalid(missing.response["Error"]["Message"]) from missing
        for variant in endpoint.get("ProductionVariants", []):
            if variant["VariantName"] == target.variant and "DesiredInstanceCount" in variant:
                return endpoint["EndpointStatus"], int(variant["DesiredInstanceCount"])
        raise store.invalid(
            f"Endpoint {target.endpoint} has no variant {target.variant} with instances"
        )

    def _make_role(self) -> None:
        """The service-linked role, as Application Auto Scaling makes it with the first target of an
        account.
        """
        iam, path = self._clients("iam"), f"/aws-service-role/{ROLE_SERVICE}/"
        if iam.list_roles(PathPrefix=path)["Roles"]:
            return
        trust = {
            "Effect": "Allow",
            "Principal": {"Service": ROLE_SERVICE},
            "Action": "sts:AssumeRole",
        }
        iam.create_role(Path=path, RoleName=ROLE_NAME, AssumeRolePolicyDocument=_policy(trust))
        allowed = {"Effect": "Allow", "Action": list(ACTIONS), "Resource": "*"}
        iam.put_role_policy(RoleName=ROLE_NAME, PolicyName="scale", PolicyDocument=_policy(allowed))

    def _deregister(self, call: ApiCall) -> Mapping[str, Any]:
        """With its policies (API reference, DeregisterScalableTarget)."""
        with self._lock:
            del self._targets[self._target(call.parameters).resource_id]
        return {}

    def _target(self, asked: Mapping[str, Any]) -> Target:
        check_scope(asked)
        target = self._targets.get(asked["ResourceId"])
        if target is None:
            where = (
                f"service namespace: {NAMESPACE}, resource ID: {asked['ResourceId']}, scalable"
                f" dimension: {DIMENSION}"
            )
            raise AwsError("ObjectNotFoundException", f"No scalable target registered for {where}")
        return target

    def _describe_targets(self, call: ApiCall) -> Mapping[str, Any]:
        ids = call.parameters.get("ResourceIds")
        return {
            "ScalableTargets": [
                shown_target(each) for each in self._all(call) if not ids or each.resource_id in ids
            ]
        }

    def _all(self, call: ApiCall) -> list[Target]:
        return (
            list(self._targets.values()) if call.parameters["ServiceNamespace"] == NAMESPACE else []
        )

    def _put_policy(self, call: ApiCall) -> Mapping[str, Any]:
        with self._lock:
            target = self._target(call.parameters)
            old = target.policies.get(call.parameters["PolicyName"])
            policy = store.policy_of(
                call.parameters, old, self._identity.region, self._identity.account
            )
            target.policies[policy.name] = policy
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
        wanted_names, resource = (
            call.parameters.get("PolicyNames"),
            call.parameters.get("ResourceId"),
        )
        found = [
            shown_policy(target, policy)
            for target in self._all(call)
            for policy in target.policies.values()
            if resource in {None, target.resource_id}
            and (not wanted_names or policy.name in wanted_names)
        ]
        return {"ScalingPolicies": found}

    def _describe_activities(self, call: ApiCall) -> Mapping[str, Any]:
        resource = call.parameters.get("ResourceId")
        return {
            "ScalingActivities": [
                each
                for each in reversed(self._activities)
                if resource in {None, each["ResourceId"]}
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

    def _untag(self, call: ApiCall) -> Mapping[str, Any]:
        for key in call.parameters["TagKeys"]:
            self._tagged(call).tags.pop(key, None)
        return {}

    def _begin(self) -> None:
        """The thread begins with the first target."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True, name="autoscaling")
            self._thread.start()

    def _run(self) -> None:
        while not self._closing.wait(LOOK_S):
            for target, policy in self._followed():
                try:
                    self._follow(target, policy)
                except (AwsError, ClientError, BotoCoreError) as trouble:
                    _log.info("autoscaling of %s: %s", target.resource_id, trouble)

    def _followed(self) -> Iterator[tuple[Target, Policy]]:
        with self._lock:
            pairs = [
                (target, policy)
                for target in self._targets.values()
                for policy in target.policies.values()
            ]
        yield from pairs

    def _follow(self, target: Target, policy: Policy) -> None:
        status, current = self._current(target)
        if status != "InService":
            return
        tracked = policy.configuration
        bounds = Bounds(target.least, target.most, not tracked.get("DisableScaleIn", False))
        values = self._alarms.series(self._metric(target), IN_PERIODS)
        count = wanted(current, values, float(tracked["TargetValue"]), bounds)
        if count != current and self._may(target, tracked, out=count > current):
            self._scale(target, current, count, values[0])

    def _metric(self, target: Target) -> Metric:
        where = frozenset({("EndpointName", target.endpoint), ("VariantName", target.variant)})
        return Metric(ENDPOINTS, "InvocationsPerInstance", where, "Sum", PERIOD_S)

    def _may(self, target: Target, tracked: Mapping[str, Any], *, out: bool) -> bool:
        """Whether it is not suspended, and the cooldown since the last change of its kind is
        over.
        """
        kind = "Out" if out else "In"
        if target.suspended.get(f"DynamicScaling{kind}Suspended"):
            return False
        last_s = target.scaled_out_at_s if out else target.scaled_in_at_s
        cooldown_s = float(tracked.get(f"Scale{kind}Cooldown", COOLDOWN_S)) / self._speed
        return last_s is None or time.monotonic() - last_s >= cooldown_s

    def _scale(self, target: Target, current: int, count: int, value: float | None) -> None:
        credentials = self._identity.service_credentials(
            target.role_arn, "AutoScaling-UpdateWeightsAndCapacities", ROLE_SERVICE
        )
        desired = [{"VariantName": target.variant, "DesiredInstanceCount": count}]
        began_at = datetime.now(UTC)
        self._clients("sagemaker", credentials).update_endpoint_weights_and_capacities(
            EndpointName=target.endpoint, DesiredWeightsAndCapacities=desired
        )
        if count > current:
            target.scaled_out_at_s = time.monotonic()
        else:
            target.scaled_in_at_s = time.monotonic()
        about = (
            f"{store.METRIC} was {'unknown' if value is None else f'{value:g}'} with {current}"
            " instances"
        )
        activity = {
            "ResourceId": target.resource_id,
            "Description": f"Setting desired instance count to {count}.",
            "Cause": about,
        }
        scope = {
            "ActivityId": str(uuid.uuid4()),
            "ServiceNamespace": NAMESPACE,
            "ScalableDimension": DIMENSION,
        }
        self._activities.append(
            {
                **scope,
                **activity,
                "StartTime": began_at,
                "EndTime": datetime.now(UTC),
                "StatusCode": "Successful",
            }
        )


def shown_target(target: Target) -> dict[str, Any]:
    """As DescribeScalableTargets answers."""
    return {
        "ServiceNamespace": NAMESPACE,
        "ResourceId": target.resource_id,
        "ScalableDimension": DIMENSION,
        "MinCapacity": target.least,
        "MaxCapacity": target.most,
        "RoleARN": target.role_arn,
        "CreationTime": target.created_at,
        "SuspendedState": dict(target.suspended),
        "ScalableTargetARN": target.arn,
    }


def shown_policy(target: Target, policy: Policy) -> dict[str, Any]:
    """As DescribeScalingPolicies answers."""
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


def _policy(statement: Mapping[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})
