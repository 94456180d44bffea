"""Tables of cases in YAML, next to the tests that run them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def table(test: str, name: str) -> Any:
    """Return what the file `name` in the folder of the module `test`, its `__file__`, has."""
    return yaml.safe_load(Path(test).with_name(name).read_text(encoding="utf-8"))
