"""Application Auto Scaling: moto keeps the targets and policies of endpoints' variants.

Nothing scales by itself: no metric is watched, no alarm and no service-linked role is made.

What teardown and stacks depend on is here: a target needs its variant, its policies go with it, it
goes with its endpoint, and one that is not there is an ObjectNotFoundException, where moto says
ValidationException.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError
from moto.applicationautoscaling.models import (
    ApplicationAutoscalingBackend,
    applicationautoscaling_backends,
)

from shoal_local.control.http.guards import Guard, OnlyThese
from shoal_local.control.http.protocol import ApiCall
from shoal_local.control.identity.clients import Clients
from shoal_local.control.identity.identity import Identity
from shoal_local.errors import AwsError

NAMESPACE, DIMENSION = "sagemaker", "sagemaker:variant:DesiredInstanceCount"
OPERATIONS = frozenset(
    {
        *("RegisterScalableTarget", "DeregisterScalableTarget", "DescribeScalableTargets"),
        *("PutScalingPolicy", "DeleteScalingPolicy", "DescribeScalingPolicies"),
    }
)
_RESOURCE_ID = re.compile(r"endpoint/(?P<endpoint>[^/]+)/variant/(?P<variant>[^/]+)")


@dataclass(frozen=True)
class AutoScaling:
    """The scalable targets of one account and region."""

    identity: Identity
    clients: Clients

    @property
    def guards(self) -> Mapping[str, Guard]:
        """Return the checks before moto gets a request; `*` is every operation."""
        return {
            "*": OnlyThese(OPERATIONS),
            "RegisterScalableTarget": self._check_variant,
            "DeregisterScalableTarget": self._deregister_policies,
            "PutScalingPolicy": self._check_target,
            "DeleteScalingPolicy": self._check_policy,
        }

    @property
    def _kept(self) -> ApplicationAutoscalingBackend:
        return applicationautoscaling_backends[self.identity.account][self.identity.region]

    def _ids(self) -> list[str]:
        return list(self._kept.targets.get(DIMENSION, ()))

    def has_target(self, endpoint: str) -> bool:
        """Return whether a variant of the endpoint is a scalable target.

        SageMaker's names are the same in any case.
        """
        return any(_is_of(endpoint, resource_id) for resource_id in self._ids())

    def on_event(self, entry: Mapping[str, Any]) -> None:
        """Deregister the targets of an endpoint when an event says that it is being deleted.

        Source: SageMaker developer guide, "Delete endpoints configured for auto scaling". Whether
        the caller of DeleteEndpoint may do so is checked before.
        """
        detail, kind = entry["detail"], "SageMaker Endpoint State Change"
        if entry["detail-type"] == kind and detail.get("EndpointStatus") == "DELETING":
            for resource_id in self._ids():
                if _is_of(detail["EndpointName"], resource_id):
                    self._delete_policies(resource_id)
                    self._kept.targets[DIMENSION].pop(resource_id, None)

    def _delete_policies(self, resource_id: str) -> None:
        for key, policy in list(self._kept.policies.items()):
            if policy.resource_id == resource_id:
                self._kept.policies.pop(key, None)

    def _check_variant(self, call: ApiCall) -> None:
        """Raise ValidationException unless the endpoint has the variant, with instances."""
        request, parts = call.parameters, _RESOURCE_ID.fullmatch(call.parameters["ResourceId"])
        if (request["ServiceNamespace"], request["ScalableDimension"]) != (NAMESPACE, DIMENSION):
            raise _invalid(f"Shoal's emulator keeps targets of {NAMESPACE} {DIMENSION} only")
        if parts is None:
            raise _invalid(
                f"Unsupported resource id: {request['ResourceId']}; a variant is"
                " endpoint/NAME/variant/NAME"
            )
        name, variant = parts["endpoint"], parts["variant"]
        try:
            endpoint = self.clients("sagemaker").describe_endpoint(EndpointName=name)
        except ClientError as missing:
            raise _invalid(missing.response["Error"]["Message"]) from missing
        if not any(
            each["VariantName"] == variant and "DesiredInstanceCount" in each
            for each in endpoint.get("ProductionVariants", [])
        ):
            raise _invalid(f"Endpoint {name} has no variant {variant} with instances")

    def _check_target(self, call: ApiCall) -> None:
        resource_id = call.parameters["ResourceId"]
        if resource_id not in self._ids():
            raise _missing(f"No scalable target registered for {resource_id}")

    def _deregister_policies(self, call: ApiCall) -> None:
        """Delete a target's policies before it (API reference, DeregisterScalableTarget)."""
        self._check_target(call)
        self._delete_policies(call.parameters["ResourceId"])

    def _check_policy(self, call: ApiCall) -> None:
        name, resource_id = call.parameters["PolicyName"], call.parameters["ResourceId"]
        policies = list(self._kept.policies.values())
        if (name, resource_id) not in {(each.policy_name, each.resource_id) for each in policies}:
            raise _missing(f"No scaling policy found for {name} of {resource_id}")


def _is_of(endpoint: str, resource_id: str) -> bool:
    return resource_id.lower().startswith(f"endpoint/{endpoint.lower()}/")


def _invalid(message: str) -> AwsError:
    return AwsError("ValidationException", message)


def _missing(message: str) -> AwsError:
    return AwsError("ObjectNotFoundException", message)
