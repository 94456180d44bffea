"""AWS::CDK::Metadata."""

from __future__ import annotations

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceType,
    names,
)


class CdkMetadata(ResourceType):
    """The CDK's usage report, which is no resource on AWS, either."""

    type_name = "AWS::CDK::Metadata"
    properties = names("Analytics")

    def create(self, request: Request) -> Created:
        return Created(request.generated_name())

    def update(self, request: Request) -> Created:
        return Created(request.physical_id)

    def delete(self, request: Request) -> None:
        """Do nothing: nothing was created."""


TYPES: tuple[ResourceType, ...] = (CdkMetadata(),)
