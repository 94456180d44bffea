"""What the page of a run says of a sweep, from the sweeper's own report."""

from __future__ import annotations

import runpy
from datetime import UTC, datetime
from typing import Any

import pytest

from shoal.page.readings.cleanups import cleanups_of
from tests.functions.invocation import FUNCTIONS

BEGAN = datetime(2026, 11, 25, tzinfo=UTC)
RUN, OTHER = "abcdefghijkl", "mnopqrstuvwx"
OWN, OTHERS = f"endpoint/shoal-mnist-dev-{RUN}", f"endpoint/shoal-mnist-dev-{OTHER}"


class Log:
    """A client for CloudWatch Logs whose sweeper has said one thing."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get_paginator(self, _: str) -> Log:
        return self

    def paginate(self, **request: Any) -> list[dict[str, Any]]:
        assert RUN in self._text, f"not found by {request['filterPattern']}"
        is_sweeper = request["logGroupName"].endswith("-sweep")
        return [{"events": [{"timestamp": 0, "message": self._text}] if is_sweeper else []}]


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ({"kept": [OTHER, RUN]}, "left what runs or is young"),
        (
            {"past_ttl": [RUN], "dry_run": True},
            "dry run: found something past its time, deleted nothing",
        ),
        ({"past_ttl": [RUN], "pending": [RUN]}, "could not delete all yet, deleted nothing"),
        (
            {"past_ttl": [RUN, OTHER], "deleted": [OWN, OTHERS], "pending": [RUN, OTHER]},
            f"could not delete all yet, deleted {OWN}",
        ),
        (
            {"past_ttl": [RUN, OTHER], "deleted": [OTHERS, OWN], "pending": [OTHER]},
            f"deleted {OWN}",
        ),
        ({"past_ttl": [RUN], "deleted": ["model/renamed"]}, "deleted model/renamed"),
        ({"kept": [OTHER], "past_ttl": [RUN]}, "deleted nothing"),
    ],
    ids=["kept", "dry", "pending", "in-part", "among-others", "by-tags", "gone-meanwhile"],
)
def test_a_sweep_is_told_as_far_as_it_was_of_this_run(
    monkeypatch: pytest.MonkeyPatch, found: dict[str, Any], says: str
) -> None:
    monkeypatch.syspath_prepend(FUNCTIONS / "teardown")
    report = runpy.run_path(str(FUNCTIONS / "teardown" / "sweep.py"))["Report"]
    log = Log(f"[INFO]\t2026-11-25T00:00:00Z\t{report(**{'dry_run': False} | found)}\n")
    functions = {"sweep": "shoal-mnist-dev-sweep"}
    assert [each.text for each in cleanups_of(log, functions, RUN, BEGAN, BEGAN)] == [says]
