"""The operations on tags of services that are kept here: they differ in names only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal_local.control.http.protocol import ApiCall


@dataclass(frozen=True)
class Tagging:
    """TagResource, UntagResource and the list of a resource's tags.

    - `tags_of` returns the tags of the resource with an ARN, which may be changed, and raises
      AwsError where there is none.
    - `resource` is the parameter with that ARN.
    - `as_list`: tags are a list of Key and Value, not a map.
    """

    tags_of: Callable[[str], dict[str, str]]
    resource: str = "ResourceARN"
    list_name: str = "ListTagsForResource"
    as_list: bool = False

    @property
    def operations(self) -> dict[str, Callable[[ApiCall], Mapping[str, Any]]]:
        return {"TagResource": self._tag, "UntagResource": self._untag, self.list_name: self._list}

    def _tags(self, call: ApiCall) -> dict[str, str]:
        return self.tags_of(call.parameters[self.resource])

    def _tag(self, call: ApiCall) -> Mapping[str, Any]:
        tags = call.parameters["Tags"]
        self._tags(call).update(tag_map(tags) if self.as_list else tags)
        return {}

    def _untag(self, call: ApiCall) -> Mapping[str, Any]:
        for name in call.parameters["TagKeys"]:
            self._tags(call).pop(name, None)
        return {}

    def _list(self, call: ApiCall) -> Mapping[str, Any]:
        tags = self._tags(call)
        return tag_list(tags) if self.as_list else {"Tags": dict(tags)}


def tag_map(tags: list[dict[str, str]] | None) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in tags or []}


def tag_list(tags: Mapping[str, str]) -> dict[str, list[dict[str, str]]]:
    """Return the member `Tags` of an answer, which an empty list leaves out."""
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    return {"Tags": pairs} if pairs else {}
