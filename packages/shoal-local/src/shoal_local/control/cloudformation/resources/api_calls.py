"""Calls of AWS's API with the properties of a template.

Names are matched in any case (`scanOnPush`), numbers and booleans may be text, and a document is
written as JSON where the API takes text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from botocore import xform_name
from botocore.model import ListShape, MapShape, Shape, StructureShape

TAG_OPERATIONS: Mapping[str, tuple[str, str]] = {
    "ec2": ("CreateTags", "DeleteTags"),
    "iam": ("TagRole", "UntagRole"),
    "logs": ("TagLogGroup", "UntagLogGroup"),
    "sagemaker": ("AddTags", "DeleteTags"),
    "sqs": ("TagQueue", "UntagQueue"),
    "ssm": ("AddTagsToResource", "RemoveTagsFromResource"),
}
"""The operations that tag and untag a resource; other services have TagResource."""
_OTHERS = ("TagResource", "UntagResource")


def call(client: Any, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Call an operation; arguments that are None are left out."""
    given = {name: value for name, value in arguments.items() if value is not None}
    shape = client.meta.service_model.operation_model(operation).input_shape
    return dict(getattr(client, xform_name(operation))(**api_value(shape, given)))


def members(client: Any, operation: str) -> Mapping[str, Shape]:
    """Return the parameters of an operation by their names in small letters."""
    shape = client.meta.service_model.operation_model(operation).input_shape
    return {name.lower(): member for name, member in shape.members.items()}


def api_value(shape: Shape, value: Any) -> Any:
    """Return a template's value as the API takes it. botocore refuses what the shape lacks."""
    if isinstance(shape, StructureShape) and isinstance(value, Mapping):
        names = {name.lower(): name for name in shape.members}
        known = {names.get(name.lower(), name): each for name, each in value.items()}
        return {
            name: api_value(shape.members[name], each) if name in shape.members else each
            for name, each in known.items()
        }
    if isinstance(shape, MapShape) and isinstance(value, Mapping):
        return {name: api_value(shape.value, each) for name, each in value.items()}
    if isinstance(shape, ListShape) and isinstance(value, list):
        return [api_value(shape.member, each) for each in value]
    return _scalar(shape.type_name, value)


def _scalar(type_name: str, value: Any) -> Any:
    if type_name == "boolean":
        return as_bool(value)
    if type_name in {"integer", "long"}:
        return int(value)
    if type_name in {"float", "double"}:
        return float(value)
    if type_name == "string" and not isinstance(value, str):
        return json.dumps(value)
    return value


def as_bool(value: Any) -> bool:
    """Return a boolean, which templates may write as text."""
    return value if isinstance(value, bool) else str(value).lower() == "true"


def tag_value(shape: Shape, tags: Mapping[str, str]) -> Any:
    """Return tags as `shape` has them: as a map, or as a list of structures of key and value."""
    if isinstance(shape, MapShape):
        return dict(tags)
    key_name, value_name = cast(StructureShape, cast(ListShape, shape).member).members
    return [{key_name: key, value_name: value} for key, value in tags.items()]


def tag(client: Any, service: str, resource: str, tags: Mapping[str, str]) -> None:
    operation, _ = TAG_OPERATIONS.get(service, _OTHERS)
    value = tag_value(members(client, operation)["tags"], tags)
    call(client, operation, _tag_arguments(client, operation, resource, value))


def untag(client: Any, service: str, resource: str, keys: Iterable[str]) -> None:
    _, operation = TAG_OPERATIONS.get(service, _OTHERS)
    value = [{"Key": key} for key in keys] if service == "ec2" else list(keys)
    call(client, operation, _tag_arguments(client, operation, resource, value))


def _tag_arguments(client: Any, operation: str, resource: str, tags: Any) -> dict[str, Any]:
    """Return the arguments of an operation whose one other required member is the resource."""
    shape = client.meta.service_model.operation_model(operation).input_shape
    arguments: dict[str, Any] = {}
    for name, member in shape.members.items():
        if name.lower() in {"tags", "tagkeys"}:
            arguments[name] = tags
        elif name == "ResourceType":
            arguments[name] = "Parameter"
        elif name in shape.required_members:
            arguments[name] = [resource] if isinstance(member, ListShape) else resource
    return arguments
