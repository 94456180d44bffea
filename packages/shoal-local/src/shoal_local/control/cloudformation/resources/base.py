"""What the engine needs of a resource type: create, update and delete it through the API, and the
properties whose change needs a new resource.
"""

import contextlib
import json
import re
import secrets
import string
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from botocore import xform_name
from botocore.exceptions import ClientError
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


SUFFIX_LENGTH = 12
NOT_FOUND = re.compile(
    r"NotFound|NoSuch|NonExistent|DoesNotExist|does not exist|Could not find", re.IGNORECASE
)


class ResourceError(Exception):
    """The resource cannot be created, updated or deleted.

    `str()` is the reason in the stack event.
    """


@dataclass(frozen=True)
class Created:
    """A resource that exists, with the values of `Ref` and `Fn::GetAtt`."""

    physical_id: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """One step on one resource.

    `client(service)` signs with the stack's role. `old` has the properties before an update.
    """

    stack_name: str
    stack_id: str
    logical_id: str
    type_name: str
    properties: Mapping[str, Any]
    client: Callable[[str], Any]
    account: str
    region: str
    stack_tags: Mapping[str, str] = field(default_factory=dict)
    old_stack_tags: Mapping[str, str] = field(default_factory=dict)
    physical_id: str = ""
    old: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    closing: threading.Event = field(default_factory=threading.Event)

    def __getitem__(self, name: str) -> Any:
        try:
            return self.properties[name]
        except KeyError:
            raise ResourceError(
                f"Properties validation failed for resource {self.logical_id}: required key"
                f" [{name}] not found"
            ) from None

    def get(self, name: str, default: Any = None) -> Any:
        return self.properties.get(name, default)

    def only(self, *names: str) -> dict[str, Any]:
        """Return those of the properties that the template sets."""
        return {name: self.properties[name] for name in names if name in self.properties}

    def name(self, property_name: str, max_length: int = 64, lower: bool = False) -> str:
        """Return the name in the template, or a generated one of at most `max_length`."""
        name = self.properties.get(property_name)
        return str(name) if name else self.generated_name(max_length, lower)

    def generated_name(self, max_length: int = 64, lower: bool = False) -> str:
        """Return `<stack>-<logical id>-<random>`."""
        alphabet = string.ascii_letters + string.digits
        suffix = "".join(secrets.choice(alphabet) for _ in range(SUFFIX_LENGTH))
        stem = f"{self.stack_name}-{self.logical_id}"[: max_length - SUFFIX_LENGTH - 1].rstrip("-")
        name = f"{stem}-{suffix}"
        return name.lower() if lower else name

    def tags(self) -> list[dict[str, str]]:
        """Return the resource's and the stack's tags as a list of Key and Value."""
        return [{"Key": key, "Value": value} for key, value in self.tag_map().items()]

    def tag_map(self) -> dict[str, str]:
        return _tag_map(self.stack_tags, self.properties.get("Tags"))

    def retag(self, service: str, resource: str) -> None:
        """Remove dropped tags and set the others, where any changed."""
        client, tags = self.client(service), self.tag_map()
        old_tags = _tag_map(self.old_stack_tags, self.old.get("Tags"))
        dropped = old_tags.keys() - tags.keys()
        if dropped:
            untag(client, service, resource, sorted(dropped))
        if tags and tags != old_tags:
            tag(client, service, resource, tags)

    def call(self, service: str, operation: str, **arguments: Any) -> dict[str, Any]:
        """Call an operation with arguments as templates write them; None is left out."""
        return call(self.client(service), operation, arguments)

    def changed(self, *names: str) -> bool:
        """Return whether any of the properties differs from its old value.

        `A.B` is the member B of the property A.
        """
        return any(_member(self.properties, name) != _member(self.old, name) for name in names)


def _member(properties: Mapping[str, Any], path: str) -> Any:
    value: Any = properties
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _tag_map(stack_tags: Mapping[str, str], own: Any) -> dict[str, str]:
    """Return the tags of a resource over those of its stack.

    Types write them as a list of Key and Value, or as a map.
    """
    pairs = (
        dict(own or {})
        if isinstance(own, Mapping)
        else {tag["Key"]: tag["Value"] for tag in own or []}
    )
    return {key: str(value) for key, value in {**stack_tags, **pairs}.items()}


class ResourceType(ABC):
    """A type of resource.

    `properties` are those that are emulated. A change of one in `replaced_by` needs a new resource.
    If `new_id_means_replaced`, an update that returns another physical id leaves the old resource
    to be deleted.
    """

    type_name: str
    properties: frozenset[str]
    replaced_by: frozenset[str] = frozenset()
    new_id_means_replaced = False

    @abstractmethod
    def create(self, request: Request) -> Created: ...

    @abstractmethod
    def update(self, request: Request) -> Created: ...

    @abstractmethod
    def delete(self, request: Request) -> None:
        """Delete the resource. The last call may find it missing: the engine ignores that."""

    def check(self, request: Request) -> None:
        """Raise ResourceError for a property that is not emulated."""
        unknown = sorted(set(request.properties) - self.properties)
        if unknown:
            raise ResourceError(
                f"Shoal's emulator does not emulate the property {unknown[0]} of"
                f" {request.type_name}"
            )

    def needs_replacement(self, request: Request) -> bool:
        return request.changed(*self.replaced_by)


def names(text: str) -> frozenset[str]:
    """Return property names, written as words."""
    return frozenset(text.split())


def ignore_missing(delete: Callable[[], object]) -> None:
    """Call `delete`, and ignore that the resource does not exist.

    Every service has its own words for that.
    """
    try:
        delete()
    except ClientError as error:
        detail = error.response["Error"]
        if not NOT_FOUND.search(f"{detail.get('Code')}: {detail.get('Message')}"):
            raise


@contextlib.contextmanager
def undo_on_failure(undo: Callable[[], object]) -> Iterator[None]:
    """Delete a half-created resource when the rest of its creation fails."""
    try:
        yield
    except Exception:
        with contextlib.suppress(ClientError):
            undo()
        raise
