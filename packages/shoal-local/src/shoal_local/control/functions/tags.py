"""The Lambda API's tags, of functions and of event source mappings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal_local.control.functions.mappings import EventSources
from shoal_local.control.functions.service import Functions
from shoal_local.control.http.protocol import ApiCall


@dataclass(frozen=True)
class FunctionTags:
    """The operations on tags, which find their resource by ARN."""

    functions: Functions
    sources: EventSources

    @property
    def operations(self) -> dict[str, Callable[[ApiCall], Mapping[str, Any]]]:
        return {"TagResource": self._tag, "UntagResource": self._untag, "ListTags": self._list}

    def _list(self, call: ApiCall) -> Mapping[str, Any]:
        return {"Tags": dict(self._tags(call))}

    def _tag(self, call: ApiCall) -> Mapping[str, Any]:
        self._tags(call).update(call.parameters["Tags"])
        return {}

    def _untag(self, call: ApiCall) -> Mapping[str, Any]:
        for name in call.parameters["TagKeys"]:
            self._tags(call).pop(name, None)
        return {}

    def _tags(self, call: ApiCall) -> dict[str, str]:
        arn = call.parameters["Resource"]
        is_mapping = ":event-source-mapping:" in arn
        return self.sources.tags(arn) if is_mapping else self.functions.get(arn).tags
