"""Take out of what AWS is asked and answers everything that is somebody's: ids, keys, people."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from shoal.settings.parsing.yaml_file import read_table
from shoal.settings.sections.secrets import ANYWHERE

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
            return {
                self.text(str(key)): self._member(named if key in _VALUES else str(key), each)
                for key, each in kept.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(each) for each in value[:MAX_ITEMS]]
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, datetime):
            return value.isoformat()
        is_plain = value is None or isinstance(value, int | float)
        return value if is_plain else f"<{type(value).__name__}>"

    def _member(self, name: str, value: Any) -> Any:
        is_secret = _SECRET.search(name) and isinstance(value, str | bytes)
        return _GONE if is_secret else self.value(value)
