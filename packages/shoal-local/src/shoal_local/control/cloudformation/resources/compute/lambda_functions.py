"""AWS::Lambda: functions, the permissions to invoke them, and event source mappings."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from typing import Any

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceType,
    names,
)

FUNCTION_SETTINGS = (
    "Role",
    "Handler",
    "Runtime",
    "Description",
    "Timeout",
    "MemorySize",
    "Environment",
    "VpcConfig",
    "TracingConfig",
    "LoggingConfig",
)
MAPPING_SETTINGS = (
    "BatchSize",
    "MaximumBatchingWindowInSeconds",
    "FunctionResponseTypes",
    "ScalingConfig",
    "Enabled",
)


def function_code(code: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Code property as the API takes it; inline source is zipped as `index.py`."""
    if "ZipFile" not in code:
        return {
            key: code[key]
            for key in ("S3Bucket", "S3Key", "S3ObjectVersion", "ImageUri")
            if key in code
        }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo("index.py"), code["ZipFile"])
    return {"ZipFile": buffer.getvalue()}


def settings(request: Request) -> dict[str, Any]:
    """Return the settings of a function, with numbers as numbers."""
    arguments = request.only(*FUNCTION_SETTINGS)
    return {
        name: int(value) if name in {"Timeout", "MemorySize"} else value
        for name, value in arguments.items()
    }


def _retag(request: Request, arn: str) -> None:
    client = request.client("lambda")
    request.retag(
        lambda: client.tag_resource(Resource=arn, Tags=request.tag_map()),
        lambda keys: client.untag_resource(Resource=arn, TagKeys=keys),
    )


class Function(ResourceType):
    type_name = "AWS::Lambda::Function"
    properties = frozenset(
        {"FunctionName", "Code", "Tags", "Architectures", "PackageType", *FUNCTION_SETTINGS}
    )
    replaced_by = names("FunctionName PackageType")

    def create(self, request: Request) -> Created:
        name = request.name("FunctionName", 64)
        response = request.client("lambda").create_function(
            FunctionName=name,
            Code=function_code(request["Code"]),
            Tags=request.tag_map(),
            **settings(request),
            **request.only("Architectures", "PackageType"),
        )
        return Created(name, {"Arn": response["FunctionArn"]})

    def update(self, request: Request) -> Created:
        client, name = request.client("lambda"), request.physical_id
        if request.changed("Code"):
            client.update_function_code(FunctionName=name, **function_code(request["Code"]))
        if request.changed(*FUNCTION_SETTINGS):
            defaults = {
                "Description": "",
                "Timeout": 3,
                "MemorySize": 128,
                "Environment": {"Variables": {}},
            }
            resets = {
                key: value
                for key, value in defaults.items()
                if key in request.old and key not in request.properties
            }
            client.update_function_configuration(FunctionName=name, **resets, **settings(request))
        _retag(request, request.attributes["Arn"])
        return Created(name, request.attributes)

    def delete(self, request: Request) -> None:
        request.client("lambda").delete_function(FunctionName=request.physical_id)


class Permission(ResourceType):
    type_name = "AWS::Lambda::Permission"
    properties = names("FunctionName Action Principal SourceArn SourceAccount")
    replaced_by = properties

    def create(self, request: Request) -> Created:
        sid = request.generated_name(100)
        request.client("lambda").add_permission(StatementId=sid, **request.properties)
        return Created(sid, {"Id": sid})

    def delete(self, request: Request) -> None:
        client = request.client("lambda")
        client.remove_permission(
            FunctionName=request["FunctionName"], StatementId=request.physical_id
        )


class EventSourceMapping(ResourceType):
    type_name = "AWS::Lambda::EventSourceMapping"
    properties = frozenset({"EventSourceArn", "FunctionName", "Tags", *MAPPING_SETTINGS})
    replaced_by = names("EventSourceArn")

    def create(self, request: Request) -> Created:
        arguments = request.only("EventSourceArn", "FunctionName", *MAPPING_SETTINGS)
        response = request.client("lambda").create_event_source_mapping(
            **arguments, Tags=request.tag_map()
        )
        return Created(
            response["UUID"],
            {"Id": response["UUID"], "EventSourceMappingArn": response["EventSourceMappingArn"]},
        )

    def update(self, request: Request) -> Created:
        defaults: dict[str, Any] = {
            "BatchSize": 10,
            "MaximumBatchingWindowInSeconds": 0,
            "FunctionResponseTypes": [],
            "Enabled": True,
        }
        resets = {
            key: value
            for key, value in defaults.items()
            if key in request.old and key not in request.properties
        }
        arguments = request.only("FunctionName", *MAPPING_SETTINGS)
        _retag(request, request.attributes["EventSourceMappingArn"])
        request.client("lambda").update_event_source_mapping(
            UUID=request.physical_id, **resets, **arguments
        )
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        request.client("lambda").delete_event_source_mapping(UUID=request.physical_id)


TYPES: tuple[ResourceType, ...] = (
    Function(),
    Permission(),
    EventSourceMapping(),
)
