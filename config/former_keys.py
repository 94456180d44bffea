"""Keys of older versions of Shoal, and how to write now what they said: one problem each."""

from __future__ import annotations

import re

from config.errors import Problem

Place = tuple[int | str, ...]

_OF_RELEASES = frozenset(
    {
        (("release", "copied_from"), "extra_forbidden"),
        (("release", "replaces"), "extra_forbidden"),
        (("release", "environment"), "missing"),
    }
)
"""Where the section `release` differs, and pydantic's word for how."""


def place_of(place: Place, kind: str) -> Place:
    """Return the place to name: that of the whole section for a former release."""
    return place[:1] if (place, kind) in _OF_RELEASES else place


def problem_of(key: str, place: Place, kind: str, value: object) -> Problem | None:
    """Return the problem with a former key; None for any other mistake."""
    if place == ("release",) and kind in {each for _, each in _OF_RELEASES}:
        what = "was pinned by a Shoal that served archives in place, or copies of them"
        advice = "take the section out and run `shoal promote`: a deployment brings the archive"
        return Problem(key, what, advice)
    if place == ("shared_versions",):
        advice = "remove it: each environment that serves brings its own copy of what it pins"
        return Problem(key, "there is no such key any more", advice)
    if place in {("delivery", "connection_arn"), ("delivery", "branch")}:
        advice = "remove it: GitHub's workflows deploy this environment, see docs/gitops.md"
        return Problem(key, "there is no such key any more: CodePipeline's way is gone", advice)
    gate = re.fullmatch(r"evaluation\.min_([a-z][a-z0-9_]*)", key)
    if gate and kind == "extra_forbidden":
        now = f"`gates: [{{metric: {gate[1]}, at_least: {value}}}]`"
        return Problem(key, "gates have names and two sides now", f"write {now} instead of it")
    return None
