"""AWS::SSM: parameters of the Parameter Store."""

from __future__ import annotations

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceType,
    names,
)

PARAMETER = "Type Value Description AllowedPattern Tier DataType"


class Parameter(ResourceType):
    type_name = "AWS::SSM::Parameter"
    properties = names(f"Name Tags {PARAMETER}")
    replaced_by = names("Name Type")

    def create(self, request: Request) -> Created:
        name = request.name("Name", 512)
        tags = {"Tags": request.tags()} if request.tags() else {}
        request.client("ssm").put_parameter(Name=name, **request.only(*PARAMETER.split()), **tags)
        return Created(name, request.only("Type", "Value"))

    def update(self, request: Request) -> Created:
        ssm, name = request.client("ssm"), request.physical_id
        ssm.put_parameter(Name=name, **request.only(*PARAMETER.split()), Overwrite=True)
        request.retag(
            lambda: ssm.add_tags_to_resource(
                ResourceType="Parameter", ResourceId=name, Tags=request.tags()
            ),
            lambda keys: ssm.remove_tags_from_resource(
                ResourceType="Parameter", ResourceId=name, TagKeys=keys
            ),
        )
        return Created(request.physical_id, request.only("Type", "Value"))

    def delete(self, request: Request) -> None:
        request.client("ssm").delete_parameter(Name=request.physical_id)


TYPES: tuple[ResourceType, ...] = (Parameter(),)
