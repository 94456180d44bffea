"""The Lambda API's tags, of functions and of event source mappings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal_local.control.functions.mappings import EventSources
from shoal_local.control.functions.service import Functions
from shoal_local.control.http.protocol import ApiCall

MAPPING = ":event-source-mapping:"


@dataclass(frozen=True)
class FunctionTags:
    """The operations on tags, which find their resource by ARN."""

    functions: Functions
    sources: EventSources

    @property
    def operations(self) -> dict[str, Callable[[ApiCall], Mapping[str, Any]]]:
        return {"TagResource": self._tag, "UntagResource": self._untag, "ListTags": self._list}

    def _list(self, call: ApiCall) -> Mapping[str, Any]:
        return {"Tags": self._tags(call.parameters["Resource"])}

    def _tag(self, call: ApiCall) -> Mapping[str, Any]:
        arn = call.parameters["Resource"]
        return self._set(arn, {**self._tags(arn), **call.parameters["Tags"]})

    def _untag(self, call: ApiCall) -> Mapping[str, Any]:
        arn = call.parameters["Resource"]
        return self._set(
            arn,
            {
                key: value
                for key, value in self._tags(arn).items()
                if key not in call.parameters["TagKeys"]
            },
        )

    def _tags(self, arn: str) -> dict[str, str]:
        return dict(self.sources.tags(arn) if MAPPING in arn else self.functions.get(arn).tags)

    def _set(self, arn: str, tags: Mapping[str, str]) -> Mapping[str, Any]:
        if MAPPING in arn:
            current = self.sources.tags(arn)
            current.clear()
            current.update(tags)
        else:
            self.functions.retag(arn, tags)
        return {}
