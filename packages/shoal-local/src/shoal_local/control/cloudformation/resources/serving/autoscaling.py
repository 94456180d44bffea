"""AWS::ApplicationAutoScaling: scalable targets and scaling policies of endpoints' variants.

The types' schemas say which changes need a new resource.
"""

from __future__ import annotations

from typing import Any

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceType,
    names,
)
from shoal_local.control.cloudformation.resources.serving.sagemaker import typed_for

SCOPE = ("ServiceNamespace", "ResourceId", "ScalableDimension")
SERVICE = "application-autoscaling"


class ScalableTarget(ResourceType):
    type_name = "AWS::ApplicationAutoScaling::ScalableTarget"
    replaced_by = frozenset(SCOPE)
    properties = replaced_by | names("MinCapacity MaxCapacity RoleARN SuspendedState Tags")

    def create(self, request: Request) -> Created:
        """Create the target; `Ref` returns the id that a policy's ScalingTargetId takes."""
        id_ = "|".join(
            str(request[name]) for name in ("ResourceId", "ScalableDimension", "ServiceNamespace")
        )
        return Created(id_, {"Id": id_, "Arn": self._put(request)})

    def update(self, request: Request) -> Created:
        client, arn = request.client(SERVICE), self._put(request)
        request.retag(
            lambda: client.tag_resource(ResourceARN=arn, Tags=request.tag_map()),
            lambda keys: client.untag_resource(ResourceARN=arn, TagKeys=keys),
        )
        return Created(request.physical_id, request.attributes)

    def _put(self, request: Request) -> str:
        arguments = typed_for(
            SERVICE, "RegisterScalableTarget", request.only(*self.properties - {"Tags"})
        )
        tags = {"Tags": request.tag_map()} if request.tag_map() and not request.physical_id else {}
        return str(
            request.client(SERVICE).register_scalable_target(**arguments, **tags)[
                "ScalableTargetARN"
            ]
        )

    def delete(self, request: Request) -> None:
        client = request.client(SERVICE)
        client.deregister_scalable_target(**request.only(*SCOPE))


class ScalingPolicy(ResourceType):
    type_name = "AWS::ApplicationAutoScaling::ScalingPolicy"
    replaced_by = frozenset({"PolicyName", "ScalingTargetId", *SCOPE})
    properties = replaced_by | names(
        "PolicyType TargetTrackingScalingPolicyConfiguration StepScalingPolicyConfiguration"
    )

    def create(self, request: Request) -> Created:
        arn = self._put(request)
        return Created(arn, {"Arn": arn})

    def update(self, request: Request) -> Created:
        self._put(request)
        return Created(request.physical_id, request.attributes)

    def _put(self, request: Request) -> str:
        properties = (
            "PolicyName",
            "PolicyType",
            "TargetTrackingScalingPolicyConfiguration",
            "StepScalingPolicyConfiguration",
        )
        arguments = typed_for(SERVICE, "PutScalingPolicy", request.only(*properties))
        return str(
            request.client(SERVICE).put_scaling_policy(**arguments, **_scope(request))["PolicyARN"]
        )

    def delete(self, request: Request) -> None:
        client = request.client(SERVICE)
        client.delete_scaling_policy(PolicyName=request["PolicyName"], **_scope(request))


def _scope(request: Request) -> dict[str, Any]:
    """Return the parts of the target; ScalingTargetId joins them by `|`."""
    if request.get("ScalingTargetId"):
        parts = str(request["ScalingTargetId"]).split("|")
        return dict(
            zip(("ResourceId", "ScalableDimension", "ServiceNamespace"), parts, strict=True)
        )
    return {name: request[name] for name in SCOPE}


TYPES: tuple[ResourceType, ...] = (ScalableTarget(), ScalingPolicy())
