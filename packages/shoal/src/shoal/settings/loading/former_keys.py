"""Keys of older versions of Shoal, and how to write now what they said: one problem each."""

from __future__ import annotations

import re

from shoal.settings.parsing.errors import Problem

Place = tuple[int | str, ...]


def problem_of(key: str, place: Place, kind: str, value: object) -> Problem | None:
    """Return the problem with a former key; None for any other mistake."""
    if place == ("shared_versions",):
        advice = "remove it: each environment that serves brings its own copy of what it pins"
        return Problem(key, "there is no such key any more", advice)
    if place in {("delivery", "connection_arn"), ("delivery", "branch")}:
        advice = "remove it: GitHub's workflows deploy this environment, see `shoal docs gitops`"
        return Problem(key, "there is no such key any more: CodePipeline's way is gone", advice)
    gate = re.fullmatch(r"evaluation\.min_([a-z][a-z0-9_]*)", key)
    if gate and kind == "extra_forbidden":
        now = f"`gates: [{{metric: {gate[1]}, at_least: {value}}}]`"
        return Problem(key, "gates have names and two sides now", f"write {now} instead of it")
    return None
