"""What an environment file may leave out, by framework and strategy (strategies.yaml)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from shoal.settings.parsing.yaml_file import read_table

FALLBACK_SCRIPT = "train.py"
"""The script of a combination that is not in the table; the launch contract refuses it by name."""


@dataclass(frozen=True)
class Defaults:
    """The defaults of keys of the training section."""

    entry_point: str
    framework_version: str


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = read_table(__file__, "strategies.yaml")
    return table


def defaults(framework: str, strategy: str) -> Defaults:
    """Return the defaults of `strategy` with `framework`, which must be in the table."""
    own = _table()[framework]
    row = own["strategies"].get(strategy, {})
    return Defaults(
        entry_point=row.get("entry_point", FALLBACK_SCRIPT),
        framework_version=row.get("framework_version", own["framework_version"]),
    )


def strategies_with_script(framework: str, script: str) -> tuple[str, ...]:
    """Return the strategies of `framework` that a script with this name is for."""
    return tuple(
        name for name in strategies_of(framework) if defaults(framework, name).entry_point == script
    )


def strategies_of(framework: str) -> tuple[str, ...]:
    """Return the strategies that `framework` can be distributed with."""
    return tuple(_table()[framework]["strategies"])
