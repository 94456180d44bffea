"""AWS::CDK::Metadata."""

from __future__ import annotations

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceType,
    names,
)


class CdkMetadata(ResourceType):
    """The CDK's usage report: a resource that is nothing, on AWS too."""

    type_name = "AWS::CDK::Metadata"
    properties = names("Analytics")

    def create(self, request: Request) -> Created:
        return Created(request.generated_name())

    def update(self, request: Request) -> Created:
        return Created(request.physical_id)

    def delete(self, request: Request) -> None:
        """Nothing was made."""


TYPES: tuple[ResourceType, ...] = (CdkMetadata(),)
