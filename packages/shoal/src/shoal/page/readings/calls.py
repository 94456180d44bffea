"""The calls of AWS's API while a run went on, by role, from shoal-local's log of requests.

On AWS they are in CloudTrail, which is not read.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

_DENIED = ("AccessDenied", "AuthorizationError", "UnauthorizedOperation")
"""What error codes of a refusal by policies begin with."""


def calls_in(log: Path, prefix: str, since: datetime, until: datetime) -> list[dict[str, Any]]:
    """Return how often each role whose name has `prefix` made each call, the denied first: an
    organisation's prefix may stand before it.

    The log is requests.jsonl of a shoal-local.
    """
    counts: Counter[tuple[bool, str, str]] = Counter()
    for entry in _between(log, since, until):
        _, _, role = entry["caller"].partition(":assumed-role/")
        role = role.partition("/")[0]
        if prefix in role:
            call = f"{entry['service']}:{entry['operation']}"
            counts[str(entry.get("error")).startswith(_DENIED), role, call] += 1
    rows = sorted(counts.items(), key=lambda item: (not item[0][0], item[0][1], -item[1]))
    return [
        {"role": role, "call": call, "count": count, "denied": denied}
        for (denied, role, call), count in rows
    ]


def _between(log: Path, since: datetime, until: datetime) -> Iterator[dict[str, Any]]:
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            entry: dict[str, Any] = json.loads(line)
            if since <= datetime.fromisoformat(entry["time"]) <= until:
                yield entry
