"""AWS::CodeBuild: projects, which are kept and described.

A build is refused (`shoal_local.control.stores.codebuild`).
"""

from __future__ import annotations

from typing import Any

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceType,
    names,
)
from shoal_local.control.cloudformation.resources.network.ec2 import as_bool


class Project(ResourceType):
    type_name = "AWS::CodeBuild::Project"
    properties = names(
        "Name Description ServiceRole Artifacts Environment Source EncryptionKey LogsConfig"
        " ConcurrentBuildLimit TimeoutInMinutes QueuedTimeoutInMinutes Cache Tags"
    )
    replaced_by = names("Name")

    def create(self, request: Request) -> Created:
        name = request.name("Name", 255)
        project = request.client("codebuild").create_project(name=name, **self._arguments(request))[
            "project"
        ]
        return Created(name, {"Arn": project["arn"]})

    def update(self, request: Request) -> Created:
        request.client("codebuild").update_project(
            name=request.physical_id, **self._arguments(request)
        )
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        request.client("codebuild").delete_project(name=request.physical_id)

    def _arguments(self, request: Request) -> dict[str, Any]:
        own = {
            key: value for key, value in request.properties.items() if key not in ("Name", "Tags")
        }
        return {
            **as_the_api_writes(own),
            "tags": [{"key": key, "value": value} for key, value in request.tag_map().items()],
        }


NUMBERS = ("concurrentBuildLimit", "timeoutInMinutes", "queuedTimeoutInMinutes")
BOOLEANS = ("privilegedMode",)
RENAMED = {"BuildSpec": "buildspec"}


def as_the_api_writes(value: Any) -> Any:
    """Return properties as the API spells and types them, at every depth.

    A template may write numbers and booleans as text.
    """
    if isinstance(value, list):
        return [as_the_api_writes(item) for item in value]
    if not isinstance(value, dict):
        return value
    renamed = {
        RENAMED.get(key, f"{key[0].lower()}{key[1:]}"): as_the_api_writes(inner)
        for key, inner in value.items()
    }
    return {key: _typed(key, inner) for key, inner in renamed.items()}


def _typed(key: str, value: Any) -> Any:
    if key in NUMBERS:
        return int(value)
    return as_bool(value) if key in BOOLEANS else value


TYPES: tuple[ResourceType, ...] = (Project(),)
