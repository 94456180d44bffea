"""Record every request of a target and its answer, one JSON object a line, without anything that is
somebody's: ids, keys, people.

packages/shoal-local/tests/control/test_aws_answers.py replays them.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from shoal.aws.target import Target
from shoal.settings.parsing.yaml_file import read_table
from shoal.settings.sections.secrets import ANYWHERE

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


ACCOUNT, ENVIRONMENT = "111122223333", "prove-0000"
"""What stands for every account and proof; documentation's account is shoal-local's, too."""
MAX_ITEMS = 10
"""Of a list in an answer; the rest says nothing about its form."""
_GONE = "REDACTED"
_DROPPED = frozenset({"ResponseMetadata", "Owner", "UserId"})
_SECRET = re.compile(r"secret|token|signature|password|credential|authorization|accesskey", re.I)
_TEXTS = [(re.compile(pattern), new) for pattern, new in read_table(__file__, "redaction.yaml")]
_TOKEN = re.compile(rf"(?:{ANYWHERE.pattern})[\w./-]*")
_NAMES, _VALUES = ("Name", "Key", "name", "ParameterKey"), ("Value", "value", "ParameterValue")
"""How answers call the name and the value of a tag, a parameter or a variable."""


@dataclass(frozen=True)
class Redaction:
    """What is known to be somebody's, besides what its form shows."""

    account: str
    environment: str
    checkout: Path = Path("/")
    """Where paths of this machine begin; its parents are somebody's, too."""

    def text(self, text: str) -> str:
        for folder, name in ((self.checkout, "CHECKOUT"), (Path.home(), "HOME")):
            if folder != Path("/"):
                text = text.replace(str(folder), name)
        text = text.replace(self.account, ACCOUNT).replace(self.environment, ENVIRONMENT)
        for pattern, replacement in _TEXTS:
            text = pattern.sub(replacement, text)
        return _TOKEN.sub(_GONE, text)

    def value(self, value: Any) -> Any:
        """Return a request or an answer in JSON's types, its lists cut after MAX_ITEMS."""
        if isinstance(value, Mapping):
            kept = {key: each for key, each in value.items() if key not in _DROPPED}
            named = next((str(value[name]) for name in _NAMES if name in value), "")
            redacted = {}
            for key, each in kept.items():
                is_secret = _SECRET.search(named if key in _VALUES else str(key))
                is_text = isinstance(each, str | bytes)
                redacted[self.text(str(key))] = _GONE if is_secret and is_text else self.value(each)
            return redacted
        if isinstance(value, list | tuple):
            return [self.value(each) for each in value[:MAX_ITEMS]]
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, datetime):
            return value.isoformat()
        is_plain = value is None or isinstance(value, int | float)
        return value if is_plain else f"<{type(value).__name__}>"
