"""A framework and a strategy in, what an environment file may leave out for them out (from
strategies.yaml beside this file).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from config.yaml_table import read_table

FALLBACK_SCRIPT = "train.py"
"""For a combination that is not in the table; the launch contract refuses it by name."""


@dataclass(frozen=True)
class Defaults:
    """What stands for keys of the training section that the file does not have."""

    source_dir: str
    entry_point: str
    framework_version: str


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = read_table(__file__, "strategies.yaml")
    return table


def defaults(framework: str, strategy: str) -> Defaults:
    """The defaults of `strategy` with `framework`, which must be in the table."""
    own = _table()[framework]
    row = own["strategies"].get(strategy, {})
    return Defaults(
        source_dir=own["source_dir"],
        entry_point=row.get("entry_point", FALLBACK_SCRIPT),
        framework_version=row.get("framework_version", own["framework_version"]),
    )


def strategies_with_script(framework: str, script: str) -> tuple[str, ...]:
    """The strategies of `framework` whose shipped script this is."""
    return tuple(
        name for name in strategies_of(framework) if defaults(framework, name).entry_point == script
    )


def strategies_of(framework: str) -> tuple[str, ...]:
    """The strategies that `framework` can be distributed with."""
    return tuple(_table()[framework]["strategies"])
