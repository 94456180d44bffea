"""Application Auto Scaling: targets and policies of endpoints' variants are kept, not done.

The store is ours: moto lacks tags, keeps a target's policies after deregistration, and says
ValidationException where AWS says ObjectNotFoundException.
"""

import re
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from botocore.exceptions import ClientError

from shoal_local.control.http.protocol import ApiCall, Handlers
from shoal_local.control.identity.identity import Clients, Identity
from shoal_local.control.kept_services import Tagging
from shoal_local.errors import AwsError

_invalid = partial(AwsError, "ValidationException")

NAMESPACE, DIMENSION = "sagemaker", "sagemaker:variant:DesiredInstanceCount"
ROLE = (
    "aws-service-role/sagemaker.application-autoscaling.amazonaws.com"
    "/AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
)
_RESOURCE_ID = re.compile(r"endpoint/(?P<endpoint>[^/]+)/variant/(?P<variant>[^/]+)")
_TRACKING = "TargetTrackingScaling"
_CONFIGURATION = "TargetTrackingScalingPolicyConfiguration"
Document = dict[str, Any]


@dataclass
class Target:
    """A scalable target and its policies by name, as the Describe operations answer them."""

    document: Document
    tags: dict[str, str]
    policies: dict[str, Document] = field(default_factory=dict)


class AutoScaling:
    """The scalable targets of one account and region, by resource id."""

    def __init__(self, identity: Identity, clients: Clients) -> None:
        self._identity, self._clients = identity, clients
        self._targets: dict[str, Target] = {}
        self._lock = threading.RLock()

    @property
    def operations(self) -> Handlers:
        return {
            "RegisterScalableTarget": self._register,
            "DeregisterScalableTarget": self._deregister,
            "DescribeScalableTargets": self._describe_targets,
            "PutScalingPolicy": self._put_policy,
            "DeleteScalingPolicy": self._delete_policy,
            "DescribeScalingPolicies": self._describe_policies,
            **Tagging(self._tags).operations,
        }

    def has_target(self, endpoint: str) -> bool:
        """Return whether the endpoint, whose name counts in any case, has a scalable target."""
        return any(_is_of(endpoint, resource_id) for resource_id in self._targets.copy())

    def on_event(self, entry: Mapping[str, Any]) -> None:
        """Deregister the targets of an endpoint when an event says that it is being deleted.

        Source: SageMaker developer guide, "Delete endpoints configured for auto scaling". Whether
        the caller of DeleteEndpoint may do so is checked before.
        """
        detail, kind = entry["detail"], "SageMaker Endpoint State Change"
        if entry["detail-type"] == kind and detail.get("EndpointStatus") == "DELETING":
            with self._lock:
                for resource_id in list(self._targets):
                    if _is_of(detail["EndpointName"], resource_id):
                        del self._targets[resource_id]

    def _register(self, call: ApiCall) -> Mapping[str, Any]:
        """Keep a new target, or change an old one: what the request leaves out stays as it is."""
        request, resource_id = call.parameters, call.parameters["ResourceId"]
        _check_scope(request)
        with self._lock:
            target = self._targets.get(resource_id) or self._new_target(resource_id)
            names = ("MinCapacity", "MaxCapacity")
            bounds = {name: request.get(name, target.document.get(name)) for name in names}
            if None in bounds.values():
                raise _invalid(f"{' and '.join(names)} are required to register a scalable target")
            self._check_variant(resource_id)
            target.document |= bounds
            target.tags |= request.get("Tags") or {}
            self._targets[resource_id] = target
        return {"ScalableTargetARN": target.document["ScalableTargetARN"]}

    def _new_target(self, resource_id: str) -> Target:
        document = {
            "ServiceNamespace": NAMESPACE,
            "ResourceId": resource_id,
            "ScalableDimension": DIMENSION,
            "RoleARN": f"arn:aws:iam::{self._identity.account}:role/{ROLE}",
            "CreationTime": datetime.now(UTC),
            "ScalableTargetARN": self._identity.arn(
                "application-autoscaling", f"scalable-target/{uuid.uuid4().hex[:24]}"
            ),
        }
        return Target(document, {})

    def _check_variant(self, resource_id: str) -> None:
        """Raise ValidationException unless the endpoint has the variant, with instances."""
        parts = _RESOURCE_ID.fullmatch(resource_id)
        if parts is None:
            raise _invalid(
                f"Unsupported resource id: {resource_id}; a variant is endpoint/NAME/variant/NAME"
            )
        name, variant = parts["endpoint"], parts["variant"]
        try:
            endpoint = self._clients("sagemaker").describe_endpoint(EndpointName=name)
        except ClientError as missing:
            raise _invalid(missing.response["Error"]["Message"]) from missing
        if not any(
            each["VariantName"] == variant and "DesiredInstanceCount" in each
            for each in endpoint.get("ProductionVariants", [])
        ):
            raise _invalid(f"Endpoint {name} has no variant {variant} with instances")

    def _deregister(self, call: ApiCall) -> Mapping[str, Any]:
        """Delete a target with its policies (API reference, DeregisterScalableTarget)."""
        with self._lock:
            self._target(call)
            del self._targets[call.parameters["ResourceId"]]
        return {}

    def _target(self, call: ApiCall) -> Target:
        _check_scope(call.parameters)
        resource_id = call.parameters["ResourceId"]
        if resource_id not in self._targets:
            what = f"{NAMESPACE}, resource ID: {resource_id}, scalable dimension: {DIMENSION}"
            reason = f"No scalable target registered for service namespace: {what}"
            raise AwsError("ObjectNotFoundException", reason)
        return self._targets[resource_id]

    def _describe_targets(self, call: ApiCall) -> Mapping[str, Any]:
        _check_scope(call.parameters)
        chosen = call.parameters.get("ResourceIds") or self._targets
        targets = self._targets.copy().items()
        return {
            "ScalableTargets": [dict(each.document) for name, each in targets if name in chosen]
        }

    def _put_policy(self, call: ApiCall) -> Mapping[str, Any]:
        request = call.parameters
        if request.get("PolicyType", _TRACKING) != _TRACKING or not request.get(_CONFIGURATION):
            raise _invalid(f"Shoal's emulator has policies of the type {_TRACKING} only")
        name, resource_id = request["PolicyName"], request["ResourceId"]
        of = f"{uuid.uuid4()}:resource/{NAMESPACE}/{resource_id}:policyName/{name}"
        with self._lock:
            policies = self._target(call).policies
            policies[name] = {
                "PolicyARN": self._identity.arn("autoscaling", f"scalingPolicy:{of}"),
                "CreationTime": datetime.now(UTC),
                **policies.get(name, {}),
                "PolicyName": name,
                "ServiceNamespace": NAMESPACE,
                "ResourceId": resource_id,
                "ScalableDimension": DIMENSION,
                "PolicyType": _TRACKING,
                _CONFIGURATION: request[_CONFIGURATION],
                "Alarms": [],
            }
        return {"PolicyARN": policies[name]["PolicyARN"], "Alarms": []}

    def _delete_policy(self, call: ApiCall) -> Mapping[str, Any]:
        name = call.parameters["PolicyName"]
        with self._lock:
            if self._target(call).policies.pop(name, None) is None:
                reason = f"No scaling policy found for {name} of {call.parameters['ResourceId']}"
                raise AwsError("ObjectNotFoundException", reason)
        return {}

    def _describe_policies(self, call: ApiCall) -> Mapping[str, Any]:
        _check_scope(call.parameters)
        names, resource_id = call.parameters.get("PolicyNames"), call.parameters.get("ResourceId")
        policies = [
            policy
            for target in self._targets.copy().values()
            for policy in target.policies.values()
            if resource_id in {None, policy["ResourceId"]}
            and (not names or policy["PolicyName"] in names)
        ]
        return {"ScalingPolicies": policies}

    def _tags(self, arn: str) -> dict[str, str]:
        for target in self._targets.copy().values():
            if target.document["ScalableTargetARN"] == arn:
                return target.tags
        raise AwsError("ResourceNotFoundException", f"There is no scalable target {arn}")


def _is_of(endpoint: str, resource_id: str) -> bool:
    return resource_id.lower().startswith(f"endpoint/{endpoint.lower()}/")


def _check_scope(request: Mapping[str, Any]) -> None:
    """Refuse what can be scaled or suspended on AWS and is not kept here."""
    if "SuspendedState" in request:
        raise _invalid("Shoal's emulator keeps no SuspendedState of targets")
    dimension = request.get("ScalableDimension", DIMENSION)
    if request["ServiceNamespace"] != NAMESPACE or dimension != DIMENSION:
        what = f"{request['ServiceNamespace']} {request.get('ScalableDimension', '')}"
        raise _invalid(
            f"Shoal's emulator keeps targets of {NAMESPACE} {DIMENSION} only, not {what}"
        )
