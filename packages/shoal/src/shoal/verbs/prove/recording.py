"""Record every request of a target and its answer, redacted, one JSON object a line.

packages/shoal-local/tests/control/test_recorded.py replays them.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from shoal.aws.target import Target
from shoal.verbs.prove.redaction import Redaction

_KEY = "shoal.prove"


class Recorder:
    """Appends a line when an answer is there: which line of the proof asked, service, operation,
    parameters, HTTP status, error code, answer and seconds.
    """

    def __init__(self, path: Path, redaction: Redaction) -> None:
        self._path, self._redaction, self._lock = path, redaction, threading.Lock()
        self.line = "account"
        """The line of the proof that goes on."""
        path.write_bytes(b"")

    def listen(self, target: Target) -> None:
        """Record what the clients send that `target` makes from now on; the events are
        botocore's, and transfers send from several threads.
        """
        target.listen("provide-client-params", self._on_request)
        target.listen("after-call", self._on_answer)

    def _on_request(self, params: Any, model: Any, context: dict[str, Any], **_: Any) -> None:
        service, params = model.service_model.service_name, self._redaction.value(params)
        request = {"service": service, "operation": model.name, "params": params}
        context[_KEY] = time.monotonic(), {"line": self.line, **request}

    def _on_answer(
        self, http_response: Any, parsed: Any, context: dict[str, Any], **_: Any
    ) -> None:
        sent_at, request = context[_KEY]
        outcome = {
            "status": http_response.status_code,
            "error": parsed.get("Error", {}).get("Code"),
            "answer": self._redaction.value(parsed),
            "elapsed_s": round(time.monotonic() - sent_at, 3),
        }
        line = json.dumps(request | outcome, ensure_ascii=False).encode() + b"\n"
        with suppress(OSError), self._lock, self._path.open("ab", buffering=0) as file:
            file.write(line)  # a full disk must not keep the clean-up from its answers
