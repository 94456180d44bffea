"""The parts of a page that `test_page.py` has not: each is read on one of four pages, which are
opened once.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from shoal.page.page import page
from tests.browser.pages import SCREEN, look, run_of
from tests.repository import ROOT

PARTS = """({
  verdict: document.querySelector("header").innerText.split(/\\n+/),
  sections: Object.fromEntries([...document.querySelectorAll("section")].map(
    (each) => [each.querySelector("h2").textContent, each.innerText])),
  rows: Object.fromEntries([...document.querySelectorAll("section")].map((each) => [
    each.querySelector("h2").textContent,
    [...each.querySelectorAll("tr")].map((row) => [...row.cells].map((cell) => cell.textContent)),
  ])),
  nothing: [...document.querySelectorAll(".nothing")].map((each) => each.textContent),
  labels: [...document.querySelectorAll("svg text:not(.soft)")].map((each) => each.textContent),
  phases: [...document.querySelectorAll("svg .phase title")].map((each) => each.textContent),
})"""
FILTER = """(() => {
  const lanes = document.querySelector("select[aria-label='host and rank']");
  const names = [...lanes.options].map((each) => each.textContent);
  lanes.value = names[2];
  lanes.dispatchEvent(new Event("change"));
  const lines = document.querySelector(".controls ~ .log").textContent.trim().split("\\n");
  return [names, lines, document.querySelector(".controls ~ .soft").textContent];
})()"""
OPENED = """[...document.querySelectorAll("details")].map((each) => [
  each.firstElementChild.textContent, each.open, each.firstElementChild === document.activeElement,
])"""
DASH = "\N{EN DASH}"
FIRST_DETAILS = ["Tab", "Tab", "Enter"]
"""The table of the steps takes the focus behind the link to MLflow."""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what is on each page."""
    folder = tmp_path_factory.mktemp("pages")
    views: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "succeeded": (run_of("succeeded"), {"evaluate": PARTS}),
        "running": (run_of("running"), {"evaluate": PARTS}),
        "filter": (run_of("failed"), {"evaluate": FILTER}),
        "keyboard": (run_of("succeeded"), {"keys": FIRST_DETAILS, "evaluate": OPENED}),
    }
    for name, (record, _) in views.items():
        (folder / f"{name}.html").write_text(page(record, ROOT))
    screens = [
        {**SCREEN, "url": (folder / f"{name}.html").as_uri(), **view}
        for name, (_, view) in views.items()
    ]
    pages = look(*screens)
    assert [each["said"] for each in pages] == [[]] * len(pages)
    return dict(zip(views, (each["found"] for each in pages), strict=True))


def test_a_success_says_the_next_command_and_its_gates(seen: dict[str, Any]) -> None:
    title, *rest = seen["succeeded"]["verdict"]
    assert title == "mine in dev succeeded"
    assert "next: shoal promote dev abc" in rest
    gates = rest[rest.index("accuracy") :]
    assert gates[:6] == ["accuracy", "0.95 ✓", "rmse", "3.5 ✗", "auc", f"{DASH} {DASH}"]
    assert gates[-3:-1] == ["left running", "nothing"]


def test_a_running_one_says_what_a_stop_saves(seen: dict[str, Any]) -> None:
    title, *rest = seen["running"]["verdict"]
    assert title == "mine in dev is running"
    pairs = dict(pairwise(rest))
    assert pairs["a stop saves"] == "$60.00 an hour"
    assert pairs["running now"] == "1"


def test_an_evaluation_stands_next_to_its_gates_and_the_endpoints_answers(
    seen: dict[str, Any],
) -> None:
    assert seen["succeeded"]["rows"]["Evaluation"] == [
        ["metric", "measured", "must be", ""],
        ["accuracy", "0.95", ">= 0.9", "✓ yes"],
        ["loss", "0.25", "", ""],
        ["rmse", "3.5", "<= 2", "✗ no"],
        ["auc", DASH, ">= 0.5", f"{DASH} not compared"],
        ["request to the endpoint", "answer", "as expected"],
        ["a digit", '{"digit":7}', "✓ yes"],
    ]


def test_each_link_says_whether_it_holds(seen: dict[str, Any]) -> None:
    _, *links = seen["succeeded"]["rows"]["From commit to endpoint"]
    holds = {what: holds for what, _, holds, _ in links}
    assert holds == {"commit": "✓ yes", "image": f"{DASH} not compared", "archive": "✗ no"}


def test_steps_are_a_picture_and_a_table_with_attempts_and_phases(seen: dict[str, Any]) -> None:
    shown = seen["succeeded"]
    assert shown["labels"] == ["Train (attempt 2)", "Evaluate", "teardown function", "sweeper"]
    assert shown["phases"] == ["Starting: 5.0 s", "Uploading: 2.0 s"]
    _, train, evaluate, *_ = shown["rows"]["Steps"]
    phases = "Starting 5.0 s, Training 23 s, Uploading 2.0 s"
    assert train == ["Train", "Training", "Succeeded", "2", "30 s", phases, "", ""]
    assert evaluate == ["Evaluate", "Processing", "Succeeded", "1", "20 s", "", "Train", ""]


def test_parts_of_a_step_are_a_picture_and_a_table(seen: dict[str, Any]) -> None:
    _, *parts = seen["running"]["rows"]["Where a step's time goes"]
    assert parts == [["■ forward", "20 ms", "25 %"], ["■ backward", "60 ms", "75 %"]]


def test_what_was_not_measured_or_not_read_is_said(seen: dict[str, Any]) -> None:
    assert seen["succeeded"]["nothing"] == [
        "Where a step's time goes: not measured: the training's log has no parts of a step",
        "Calls of AWS's API: not read: they are in CloudTrail",
    ]
    assert seen["running"]["nothing"] == []
    assert "cleanups: AccessDeniedException" in seen["succeeded"]["sections"]["Not read"]


def test_log_lines_are_filtered_by_host_and_rank(seen: dict[str, Any]) -> None:
    names, lines, about = seen["filter"]
    assert names == ["all hosts and ranks", "algo-1 rank 0", "algo-2 rank 3"]
    assert (lines, about) == (["03:00:41 algo-2 rank 3  the loss is nan"], "1 of 2 lines")


def test_a_table_behind_a_picture_is_opened_by_keys(seen: dict[str, Any]) -> None:
    first, *others = seen["keyboard"]
    assert first == ["as a table", True, True]
    assert not any(is_open for _, is_open, _ in others)
