"""FilterLogEvents: the events of a log group, by streams, time and a pattern of terms.

moto keeps the events; it ignores a prefix of streams and takes every event for patterns that it
does not know. Source of the patterns: CloudWatch Logs user guide, "Filter pattern syntax" (read).
Patterns of JSON fields, of columns and of regular expressions are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moto.logs.models import LogGroup, logs_backends

from shoal_local.control.protocol import ApiCall
from shoal_local.errors import AwsError

MAX_EVENTS = 10_000
_TERM = re.compile(r"""\s*([?-]?)(?:"((?:[^"\\]|\\.)*)"|(\S+))""")
_NOT_HERE = {"{": "JSON fields", "[": "columns", "%": "regular expressions"}


def filter_log_events(call: ApiCall) -> Mapping[str, Any]:
    """Answer the operation; a token is the number of events that were answered before."""
    request = call.parameters
    pattern = Pattern.parse(request.get("filterPattern") or "")
    first, last = request.get("startTime") or 0, request.get("endTime") or float("inf")
    found = [
        {**event.to_filter_dict(), "logStreamName": name}
        for name, stream in list(_group(call).streams.items())
        if _is_asked_for(name, request)
        for event in list(stream.events)
        if first <= event.timestamp <= last and pattern.matches(event.message)
    ]
    found.sort(key=lambda event: event["timestamp"])
    token, limit = request.get("nextToken") or "0", request.get("limit") or MAX_EVENTS
    start = int(token) if token.isdecimal() else len(found)
    more = {"nextToken": str(start + limit)} if start + limit < len(found) else {}
    return {"events": found[start : start + limit], "searchedLogStreams": [], **more}


def _group(call: ApiCall) -> LogGroup:
    given = call.parameters.get("logGroupName") or call.parameters.get("logGroupIdentifier", "")
    name = given.removesuffix(":*").rpartition(":")[2]
    group = logs_backends[call.account][call.region].groups.get(name)
    if group is None:
        raise AwsError("ResourceNotFoundException", "The specified log group does not exist.")
    return group


def _is_asked_for(stream: str, request: Mapping[str, Any]) -> bool:
    names, prefix = request.get("logStreamNames"), request.get("logStreamNamePrefix")
    if names and prefix:
        raise AwsError(
            "InvalidParameterException",
            "logStreamNames and logStreamNamePrefix cannot be used in one request.",
        )
    return stream in names if names else stream.startswith(prefix or "")


@dataclass(frozen=True)
class Pattern:
    """Terms of which all, any or none must be in a message, in the case that they are written."""

    every: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    none_of: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """Return the terms; `?` counts only where every term has it, as on AWS.

        Raise InvalidParameterException for a pattern of another kind.
        """
        if kind := _NOT_HERE.get(text.strip()[:1]):
            raise AwsError(
                "InvalidParameterException",
                f"The Shoal emulator does not emulate filter patterns of {kind}, only terms.",
            )
        terms: dict[str, list[str]] = {"": [], "?": [], "-": []}
        for sign, quoted, plain in _TERM.findall(text):
            terms[sign].append(re.sub(r"\\(.)", r"\1", quoted) if quoted else plain)
        alone = not terms[""] and not terms["-"]
        return cls(tuple(terms[""]), tuple(terms["?"]) if alone else (), tuple(terms["-"]))

    def matches(self, message: str) -> bool:
        """Return whether the message has what it must and nothing that it must not have."""
        return (
            all(term in message for term in self.every)
            and not any(term in message for term in self.none_of)
            and (not self.any_of or any(term in message for term in self.any_of))
        )
