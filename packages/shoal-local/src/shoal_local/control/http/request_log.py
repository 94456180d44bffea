"""The log of requests: one JSON line each in `<state_dir>/requests.jsonl`, for every account.

A line says when, what, in which account, by whom, with which parameters and outcome, how many bytes
came and went, and what IAM is asked (`unmapped` where that is not known). Long values are cut and
payloads left out.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shoal_local.control.http.protocol import ApiCall, account_of

# Policies are not cut: they say what later requests were allowed to do.
WHOLE = frozenset(
    {"PolicyDocument", "AssumeRolePolicyDocument", "Policy", "PolicyText", "policyText"}
)
MAX_VALUE_LENGTH = 200
MAX_MEMBERS = 20
PAYLOADS = frozenset(
    {
        *("Body", "Payload", "ZipFile", "TemplateBody", "PipelineDefinition", "logEvents"),
        *("MetricData", "SecretString"),
    }
)

log = logging.getLogger(__name__)


@dataclass
class RequestLog:
    """Appends to the file; safe from many threads."""

    path: Path
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _is_whole: bool = True

    def record(
        self, call: ApiCall, status: int, error: str | None = None, *, sent: int = 0
    ) -> None:
        """Write one line; `sent` is the length of the answer's body in bytes."""
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "service": call.service,
            "operation": call.operation,
            "account": call.account or account_of(call.caller_arn),
            "caller": call.caller_arn,
            "region": call.region,
            "parameters": shortened(call.parameters),
            "status": status,
            "received": call.received,
            "sent": sent,
            **(
                {"unmapped": True}
                if call.questions is None
                else {"questions": [question.as_json() for question in call.questions]}
            ),
            **({"error": error} if error else {}),
        }
        text = (json.dumps(line, default=str) + "\n").encode()
        with self._lock:
            try:
                descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                with os.fdopen(descriptor, "ab", buffering=0) as file:
                    file.write(text)
            except OSError:  # a full disk must not keep anybody from stopping and deleting
                if self._is_whole:
                    log.exception("%s has not every request", self.path)
                self._is_whole = False


def shortened(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters without payloads and with long values cut."""
    given = (key for key, value in parameters.items() if value is not None)
    readable = [key for key in given if not hasattr(parameters[key], "read")][:MAX_MEMBERS]
    is_secret = parameters.get("Type") == "SecureString"
    hidden = PAYLOADS | {"Value"} if is_secret else PAYLOADS
    members = {key: parameters[key] for key in readable if key not in hidden}
    return {
        key: value if key in WHOLE and isinstance(value, str) else _short(value)
        for key, value in members.items()
    }


def _short(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return f"{len(value)} bytes"
    if isinstance(value, Mapping):
        return shortened(value)
    if isinstance(value, list | tuple):
        return [_short(item) for item in value[:MAX_MEMBERS]]
    if isinstance(value, str) and len(value) > MAX_VALUE_LENGTH:
        return value[:MAX_VALUE_LENGTH] + "..."
    return value
