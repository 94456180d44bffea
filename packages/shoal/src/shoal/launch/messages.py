"""The texts of rules.yaml and notices.yaml, with the facts of a case in them."""

from __future__ import annotations

from functools import cache
from typing import Any

from shoal.launch.case import Case
from shoal.launch.errors import Risk
from shoal.settings.parsing.errors import Problem
from shoal.settings.parsing.yaml_file import read_table


@cache
def _table(name: str) -> dict[str, dict[str, str]]:
    table: dict[str, dict[str, str]] = read_table(__file__, f"{name}.yaml")
    return table


def problem(case: Case, name: str, /, **facts: Any) -> Problem:
    """Return the problem of that name, about the key of `training` that its row names."""
    key = _table("rules")[name]["key"]
    return problem_at(f"training.{key}", getattr(case.training, key), case, name, **facts)


def problem_at(key: str, value: Any, case: Case, name: str, /, **facts: Any) -> Problem:
    """Return the problem of that name, about any key of the environment."""
    row, facts = _table("rules")[name], {"case": case, "training": case.training, **facts}
    return Problem(key, row["message"].format(**facts), row["advice"].format(**facts), value)


def notice(case: Case, name: str, /, **facts: Any) -> str:
    """Return the notice or the risk of that name."""
    table, facts = _table("notices"), {"case": case, "training": case.training, **facts}
    if name in table["risks"]:
        return Risk(table["risks"][name].format(**facts))
    return table["notices"][name].format(**facts)
