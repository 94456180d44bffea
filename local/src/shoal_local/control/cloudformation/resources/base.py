"""What a resource type is to the engine: create, update, delete through the API, and which property
changes need a new resource.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import string
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from botocore.exceptions import ClientError

SUFFIX_LENGTH = 12
GONE = re.compile(
    r"NotFound|NoSuch|NonExistent|DoesNotExist|does not exist|Could not find", re.IGNORECASE
)


class ResourceError(Exception):
    """The resource cannot be made, changed or removed; `str()` is the reason that the stack event
    shows.
    """


@dataclass(frozen=True)
class Created:
    """A resource that exists: what `Ref` gives and what `Fn::GetAtt` gives."""

    physical_id: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """One step on one resource.

    `client(service)` signs with the stack's role; `old` are the properties it had before.
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
        """The given properties that are set."""
        return {name: self.properties[name] for name in names if name in self.properties}

    def name(self, property_name: str, longest: int = 64, lower: bool = False) -> str:
        """The name the template gives, else `<stack>-<logical id>-<random>`, cut to what the
        service takes.
        """
        given = self.properties.get(property_name)
        return str(given) if given else self.generated_name(longest, lower)

    def generated_name(self, longest: int = 64, lower: bool = False) -> str:
        alphabet = string.ascii_letters + string.digits
        suffix = "".join(secrets.choice(alphabet) for _ in range(SUFFIX_LENGTH))
        stem = f"{self.stack_name}-{self.logical_id}"[: longest - SUFFIX_LENGTH - 1].rstrip("-")
        name = f"{stem}-{suffix}"
        return name.lower() if lower else name

    def tags(self, name: str = "Tags") -> list[dict[str, str]]:
        """The resource's tags with the stack's, as a list of Key and Value."""
        return [{"Key": key, "Value": value} for key, value in self.tag_map(name).items()]

    def tag_map(self, name: str = "Tags") -> dict[str, str]:
        return _tag_map(self.stack_tags, self.properties.get(name))

    def dropped_tags(self) -> list[str]:
        """Return the keys of tags that the resource no longer has."""
        old_tags = _tag_map(self.old_stack_tags, self.old.get("Tags"))
        return [key for key in old_tags if key not in self.tag_map()]

    def retag(self, add: Callable[[], object], remove: Callable[[list[str]], object]) -> None:
        """On an update: take dropped tags away and set the others, where there are any."""
        if self.dropped_tags():
            remove(self.dropped_tags())
        if self.tags():
            add()

    def changed(self, *names: str) -> bool:
        """Whether any of the properties differs from what it was."""
        return any(self.properties.get(name) != self.old.get(name) for name in names)


def _tag_map(stack_tags: Mapping[str, str], own: Any) -> dict[str, str]:
    """Tags of a resource over those of its stack; types write them as a list of Key and Value, or
    as a map.
    """
    pairs = (
        dict(own or {})
        if isinstance(own, Mapping)
        else {tag["Key"]: tag["Value"] for tag in own or []}
    )
    return {key: str(value) for key, value in {**stack_tags, **pairs}.items()}


class ResourceType:
    """A type of resource.

    `properties` are those that are emulated; a change of one in `replaced_by` needs a new resource.
    """

    type_name: ClassVar[str]
    properties: ClassVar[frozenset[str]]
    replaced_by: ClassVar[frozenset[str]] = frozenset()
    # Whether an update that answers with another physical id leaves the old resource to be deleted.
    new_id_means_replaced: ClassVar[bool] = False

    def create(self, request: Request) -> Created:
        raise ResourceError(f"Shoal's emulator cannot create {request.type_name}")

    def update(self, request: Request) -> Created:
        raise ResourceError(f"Shoal's emulator cannot update {request.type_name}")

    def delete(self, request: Request) -> None:
        raise ResourceError(f"Shoal's emulator cannot delete {request.type_name}")

    def check(self, request: Request) -> None:
        """ResourceError names a property that is not emulated."""
        unknown = sorted(set(request.properties) - self.properties)
        if unknown:
            raise ResourceError(
                f"Shoal's emulator does not emulate the property {unknown[0]} of"
                f" {request.type_name}"
            )

    def needs_replacement(self, request: Request) -> bool:
        return request.changed(*self.replaced_by)


def names(text: str) -> frozenset[str]:
    """Property names, written as words."""
    return frozenset(text.split())


def gone_is_fine(delete: Callable[[], object]) -> None:
    """Call `delete`; that the thing is gone already, which every service says in its own words, is
    as good.
    """
    try:
        delete()
    except ClientError as error:
        detail = error.response["Error"]
        if not GONE.search(f"{detail.get('Code')}: {detail.get('Message')}"):
            raise


@contextlib.contextmanager
def undone_on_failure(undo: Callable[[], object]) -> Iterator[None]:
    """Take a half-made resource away again when the rest of its creation fails."""
    try:
        yield
    except Exception:
        with contextlib.suppress(ClientError):
            undo()
        raise


def reason_of(error: ClientError) -> str:
    """`Code: message (Service: ..., Operation)` of an API error, as a stack event shows it."""
    detail = error.response["Error"]
    return f"{detail.get('Message')} ({error.operation_name}: {detail.get('Code')})"
