"""The page of a run in a real browser: what it shows, what it lets run, how it follows a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shoal.page.page import page
from tests.browser.pages import HOSTILE, SCREEN, failed_run, look
from tests.repository import ROOT

POINTS = 100_000
MOST_CHARACTERS = 300_000
"""Of a page whose run has next to no data."""
SHOWN = """({
  title: document.title,
  headings: [...document.querySelectorAll("h2")].map((each) => each.textContent),
  text: document.querySelector("main").innerText,
  bars: document.querySelectorAll("svg rect.Succeeded, svg rect.Failed").length,
  canvases: document.querySelectorAll("canvas").length,
  images: document.querySelectorAll("img").length,
  head: document.querySelector("header").innerText.split(/\\n+/),
  cells: document.querySelectorAll("td").length,
  hidden: [...document.querySelectorAll("section > .scroll td")].filter((each) => each.textContent
    && !(each.getBoundingClientRect().height && each.getBoundingClientRect().right <= innerWidth)
    ).map((each) => each.textContent),
  overflow: document.documentElement.scrollWidth - window.innerWidth,
  background: getComputedStyle(document.body).backgroundColor,
  log: document.querySelector(".log:not(details .log)").textContent.split("\\n").length - 1,
})"""
SEARCH = """(() => {
  const box = document.querySelector("input[type=search]");
  box.value = "loss.* nan";
  box.dispatchEvent(new Event("input"));
  return [...document.querySelectorAll("section .log mark")].map((each) => each.textContent);
})()"""


LEGEND = ".u-legend .u-label"


def found_on(folder: Path, record: dict[str, Any], expression: str) -> Any:
    """Return what an expression finds on the page of a run, which complains of nothing."""
    file = folder / "run.html"
    file.write_text(page(record, ROOT))
    (seen,) = look({**SCREEN, "url": file.as_uri(), "evaluate": expression})
    assert seen["said"] == []
    return seen["found"]


def texts(*selectors: str) -> str:
    """Return an expression for the texts of what each selector finds."""
    lists = (
        f"[...document.querySelectorAll('{each}')].map((each) => each.textContent)"
        for each in selectors
    )
    return f"[{', '.join(lists)}]"


def test_a_page_shows_a_failure_on_any_screen_and_runs_nothing_of_its_text(tmp_path: Path) -> None:
    file = tmp_path / "run.html"
    assert file.write_text(page(failed_run(), ROOT)) < MOST_CHARACTERS
    asked = {"url": file.as_uri(), "width": 1280, "dark": False, "evaluate": SHOWN}
    wide, narrow, searched = look(
        asked, {**asked, "width": 360, "dark": True}, {**asked, "evaluate": SEARCH}
    )
    assert (wide["said"], narrow["said"], searched["said"]) == ([], [], [])
    found = wide["found"]
    assert found["title"] == "Failed: mine in dev"
    assert found["headings"] == [  # and no empty panel
        "Steps",
        "Curves",
        "Where a step's time goes",
        "Machines and money",
        "Logs",
        "From commit to endpoint",
        "Made and gone",
        "Calls of AWS's API",
        "Parameters",
    ]
    assert "left running\nnot known" in found["text"].lower()
    assert found["text"].count(HOSTILE) == 4
    assert found["head"][:2] == ["mine in dev failed", f"ValueError: {HOSTILE}"]
    image = "pytorch:2.12.1-cu130-amzn2023-sagemaker"
    trained = f"{image}, torchrun, 2 \N{MULTIPLICATION SIGN} ml.m5.xlarge, 2 ranks"
    assert trained in found["head"]
    assert "MLflow: http://127.0.0.1:5000/#/experiments/1/runs/a" in found["text"]
    assert "would cost on AWS" in found["head"]
    assert "step Evaluate, host algo-2, rank 3" in found["text"]
    assert (found["bars"], found["canvases"], found["images"], found["log"]) == (2, 1, 0, 2)
    assert (found["overflow"], narrow["found"]["overflow"]) == (0, 0)
    assert (narrow["found"]["hidden"], narrow["found"]["cells"]) == ([], found["cells"])
    assert found["background"] != narrow["found"]["background"]
    assert searched["found"] == ["loss is nan"]


def test_a_duration_is_rounded_before_it_is_split(tmp_path: Path) -> None:
    found = found_on(tmp_path, failed_run(), "[9.94, 59.7, 119.7, 3599.8].map(duration)")
    assert found == ["9.9 s", "1 min 0 s", "2 min 0 s", "1 h 0 min"]


def test_several_ranks_are_thin_lines_below_their_mean(tmp_path: Path) -> None:
    record = failed_run()
    (one,) = record["curves"]
    ranks = [
        {**one, "rank": rank, "points": [[float(x), x + rank, x] for x in range(9)]}
        for rank in range(3)
    ]
    before = {**one, "points": [[0.0, 1.0, 0.0], [8.0, 2.0, 1.0]]}
    other = {"label": "the run before", "id": "x", "status": "Succeeded", "image": "mine:1"}
    others: list[dict[str, Any]] = [
        {**other, "definition": "", "parameters": {}, "values": {}, "curves": [before]}
    ]
    names, last, rows = found_on(
        tmp_path,
        {**record, "curves": ranks, "others": others},
        texts(LEGEND, ".curve details tr:last-child td", "tr"),
    )
    lanes = [f"algo-1 rank {rank}" for rank in range(3)]
    assert names == ["step", *lanes, "mean of 3", "the run before"]
    assert last == ["8", "9", "8", "9", "10"]
    assert [row for row in rows if row.startswith("imagemine:1")]  # there, and not here


@pytest.mark.parametrize(
    ("names", "metric", "limit", "drawn"),
    [
        (["test:accuracy"], "accuracy", "at least 0.9", [True]),
        (["train:loss", "test:loss"], "loss", "at most 2 (version 3, approved)", [False, True]),
        (["train:loss"], "loss", "at most 2", [True]),
        (["train:loss"], "accuracy", "at least 0.9", [False]),
        (["test:accuracy"], "accuracy", "at least ?", [False]),
    ],
    ids=["its-curve", "of-the-test", "of-the-training", "another-metric", "unknown"],
)
def test_a_gates_limit_is_a_line_in_the_curve_of_its_metric(
    tmp_path: Path, names: list[str], metric: str, limit: str, drawn: list[bool]
) -> None:
    record = failed_run()
    (one,) = record["curves"]
    gate = {"metric": metric, "limit": limit, "value": None, "passed": None}
    curves = [{**one, "name": name} for name in names]
    legends = """[...document.querySelectorAll(".curve")].map((each) =>
        [...each.querySelectorAll(".u-label")].map((label) => label.textContent))"""
    found = found_on(tmp_path, {**record, "curves": curves, "gates": [gate]}, legends)
    line = "gate: " + " ".join(limit.split()[:3])
    assert [line in labels for labels in found] == drawn


@pytest.mark.parametrize("text", ["", "short", "a b " * 60, "x" * 300, "word " + "y" * 300])
def test_a_reason_is_cut_between_words(tmp_path: Path, text: str) -> None:
    cut = found_on(tmp_path, failed_run(), f"shortened({json.dumps(text)}, 200)")
    words = cut.removesuffix(" …").split()
    assert words == text.split()[: len(words)]
    assert len(cut) <= 202 or " " not in cut


def test_ranks_without_a_common_step_are_drawn_without_a_mean(tmp_path: Path) -> None:
    record = failed_run()
    (one,) = record["curves"]
    ranks = [{**one, "rank": rank, "points": [[float(rank), 1.0, 0.0]]} for rank in range(3)]
    found = found_on(tmp_path, {**record, "curves": ranks}, texts(LEGEND, ".curve summary"))
    lanes = [f"algo-1 rank {rank}" for rank in range(3)]
    assert found == [["step", *lanes], ["0 common points of 3 lanes"]]


def test_a_page_takes_a_hundred_thousand_points(tmp_path: Path) -> None:
    file = tmp_path / "run.html"
    file.write_text(page(failed_run(POINTS), ROOT))
    (opened,) = look({"url": file.as_uri(), "width": 1280, "dark": False, "evaluate": SHOWN})
    print(f"opened in {opened['loaded']} ms")
    assert (opened["said"], opened["found"]["canvases"]) == ([], 1)
    assert f"{POINTS} points" in opened["found"]["text"]
