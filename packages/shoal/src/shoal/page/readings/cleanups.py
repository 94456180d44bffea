"""What was done for a run outside the graph, from logs: by the functions that clean up (teardown
behind the terminal status, and the sweeper), and by roles that called AWS's API.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from shoal.errors import error_code

_LOOKED_AFTER = timedelta(days=1)
"""A sweep comes every quarter of an hour, and nothing that it has to delete lives for a day."""
_TORN_DOWN = re.compile(r": (nothing left|to be tried again), deleted \[(.*)\]$")
_SWEPT = re.compile(
    r"Report\(dry_run=(?P<dry_run>\w+), kept=\[(?P<kept>.*?)\], past_ttl=\[(?P<past_ttl>.*?)\],"
    r" deleted=\[(?P<deleted>.*?)\], pending=\[(?P<pending>.*?)\]"
)


@dataclass(frozen=True)
class Cleanup:
    """One call of a function that looked for what the run left."""

    by: str
    """teardown or sweep."""
    at: datetime
    text: str


def cleanups_of(
    client: Any,
    functions: Mapping[str, str],
    execution_id: str,
    since: datetime,
    until: datetime | None,
) -> Iterator[Cleanup]:
    """Yield the calls from the start of an execution to a day after its end, in order.

    `client` is that of CloudWatch Logs, `functions` has the names by what they are for. `until` is
    None while the execution runs.
    """
    for by, function in functions.items():
        for at, message in _events(client, function, execution_id, since, until):
            if match := _TORN_DOWN.search(message):
                yield Cleanup(by, at, f"{match[1]}, deleted {_plain(match[2])}")
            elif match := _SWEPT.search(message):
                yield Cleanup(by, at, _swept(match, execution_id))


def _swept(report: re.Match[str], execution_id: str) -> str:
    """Return what a sweep did for one execution: its report is of all that left something."""
    if execution_id in report["kept"]:
        return "left what runs or is young"
    if report["dry_run"] == "True":
        return "dry run: found something past its time, deleted nothing"
    is_alone = report["past_ttl"] == f"'{execution_id}'"  # then it is all its own, however called
    deleted = (each for each in report["deleted"].split(", ") if is_alone or execution_id in each)
    began = "could not delete all yet, " if execution_id in report["pending"] else ""
    return f"{began}deleted {_plain(', '.join(deleted))}"


def _events(
    client: Any, function: str, execution_id: str, since: datetime, until: datetime | None
) -> Iterator[tuple[datetime, str]]:
    end = {"endTime": _ms(until + _LOOKED_AFTER)} if until else {}
    pages = client.get_paginator("filter_log_events").paginate(
        logGroupName=f"/aws/lambda/{function}",
        startTime=_ms(since),
        filterPattern=f'"{execution_id}"',
        **end,
    )
    try:
        for page in pages:
            for event in page["events"]:
                at = datetime.fromtimestamp(event["timestamp"] / 1000, UTC)
                yield at, event["message"].strip()
    except ClientError as error:
        if error_code(error) != "ResourceNotFoundException":  # no endpoint, no such function
            raise


def _plain(listing: str) -> str:
    return listing.replace("'", "") or "nothing"


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


_DENIED = ("AccessDenied", "AuthorizationError", "UnauthorizedOperation")
"""What error codes of a refusal by policies begin with."""


def calls_in(log: Path, prefix: str, since: datetime, until: datetime) -> list[dict[str, Any]]:
    """Return how often each role whose name has `prefix` made each call, the denied first: an
    organisation's prefix may stand before it.

    The log is requests.jsonl of a shoal-local; on AWS calls are in CloudTrail, which is not read.
    """
    counts: Counter[tuple[bool, str, str]] = Counter()
    with log.open(encoding="utf-8") as lines:
        for entry in map(json.loads, lines):
            if not since <= datetime.fromisoformat(entry["time"]) <= until:
                continue
            role = entry["caller"].partition(":assumed-role/")[2].partition("/")[0]
            if prefix in role:
                call = f"{entry['service']}:{entry['operation']}"
                counts[str(entry.get("error")).startswith(_DENIED), role, call] += 1
    rows = sorted(counts.items(), key=lambda item: (not item[0][0], item[0][1], -item[1]))
    return [
        {"role": role, "call": call, "count": count, "denied": denied}
        for (denied, role, call), count in rows
    ]
