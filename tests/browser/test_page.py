"""The page of a run in a real browser: what it shows, what it lets run, how it follows a run."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from botocore.exceptions import ClientError

from shoal.verbs.runs import history
from shoal.verbs.runs.page import page
from shoal.verbs.runs.server import Pages
from tests.browser.pages import HOSTILE, SCREEN, failed_run, look, running_run
from tests.repository import ROOT

if TYPE_CHECKING:
    from shoal.verbs.workspace import Session

POINTS = 100_000
MOST_CHARACTERS = 300_000
"""Of a page whose run has next to no data."""
SLOWER = ClientError(
    {"Error": {"Code": "ThrottlingException", "Message": "slower"}}, "ListPipelines"
)
REFUSED = "ListPipelines was refused: ThrottlingException: slower"
SHOWN = """({
  title: document.title,
  headings: [...document.querySelectorAll("h2")].map((each) => each.textContent),
  text: document.querySelector("main").innerText,
  bars: document.querySelectorAll("svg rect.Succeeded, svg rect.Failed").length,
  canvases: document.querySelectorAll("canvas").length,
  images: document.querySelectorAll("img").length,
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


REFUSAL = """new Promise((done) => setInterval(() => {
  const banner = document.querySelector("main > .refused");
  if (banner) done([
    banner.role, banner.textContent, document.querySelector("h1").textContent]);
}, 20))"""
FOLLOW = """(() => {
  document.querySelector("input[type=search]").focus();
  document.querySelector(".curve details").open = true;
  return new Promise((done) => setInterval(() => document.title.startsWith("Failed") && done([
    document.querySelector("h1").textContent,
    document.activeElement.getAttribute("aria-label"),
    document.querySelector(".curve details").open,
    document.querySelector("select[aria-label=step]").value,
  ]), 20));
})()"""


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
    assert "step Evaluate, host algo-2, rank 3" in found["text"]
    assert (found["bars"], found["canvases"], found["images"], found["log"]) == (2, 1, 0, 2)
    assert (found["overflow"], narrow["found"]["overflow"]) == (0, 0)
    assert found["background"] != narrow["found"]["background"]
    assert searched["found"] == ["loss is nan"]


def test_a_duration_is_rounded_before_it_is_split(tmp_path: Path) -> None:
    file = tmp_path / "run.html"
    file.write_text(page(failed_run(), ROOT))
    asked = "[9.94, 59.7, 119.7, 3599.8].map(duration)"
    (seen,) = look({**SCREEN, "url": file.as_uri(), "evaluate": asked})
    assert seen["found"] == ["9.9 s", "1 min 0 s", "2 min 0 s", "1 h 0 min"]


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
    file = tmp_path / "run.html"
    file.write_text(page({**record, "curves": ranks, "others": others}, ROOT))
    texts = "[...document.querySelectorAll('{}')].map((each) => each.textContent)"
    legend = texts.format(".u-legend .u-label")
    cells = texts.format(".curve details tr:last-child td")
    asked = f"[{legend}, {cells}, {texts.format('tr')}]"
    (seen,) = look({**SCREEN, "url": file.as_uri(), "evaluate": asked})
    names, last, rows = seen["found"]
    lanes = [f"algo-1 rank {rank}" for rank in range(3)]
    assert names == ["step", *lanes, "mean of 3", "the run before"]
    assert (last, seen["said"]) == (["8", "9", "8", "9", "10"], [])
    assert [row for row in rows if row.startswith("imagemine:1")]  # there, and not here


def test_ranks_without_a_common_step_are_drawn_without_a_mean(tmp_path: Path) -> None:
    record = failed_run()
    (one,) = record["curves"]
    ranks = [{**one, "rank": rank, "points": [[float(rank), 1.0, 0.0]]} for rank in range(3)]
    file = tmp_path / "run.html"
    file.write_text(page({**record, "curves": ranks}, ROOT))
    texts = "[...document.querySelectorAll('{}')].map((each) => each.textContent)"
    asked = f"[{texts.format('.u-legend .u-label')}, {texts.format('.curve summary')}]"
    (seen,) = look({**SCREEN, "url": file.as_uri(), "evaluate": asked})
    lanes = [f"algo-1 rank {rank}" for rank in range(3)]
    assert seen["found"] == [["step", *lanes], ["0 common points of 3 lanes"]]
    assert seen["said"] == []


def test_a_page_takes_a_hundred_thousand_points(tmp_path: Path) -> None:
    file = tmp_path / "run.html"
    file.write_text(page(failed_run(POINTS), ROOT))
    (opened,) = look({"url": file.as_uri(), "width": 1280, "dark": False, "evaluate": SHOWN})
    print(f"opened in {opened['loaded']} ms")
    assert (opened["said"], opened["found"]["canvases"]) == ([], 1)
    assert f"{POINTS} points" in opened["found"]["text"]


def session_of(workload: str, **more: Any) -> SimpleNamespace:
    """Return what a server of pages asks of a session."""
    session = SimpleNamespace(
        environment=SimpleNamespace(workload=workload),
        place=None,
        poll_s=0.1,
        title="dev",
        workspace=SimpleNamespace(root=ROOT),
        **more,
    )
    session.each = (session,)
    return session


def test_a_live_page_follows_the_run_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = {**failed_run(), "made": []}
    ended["logs"] = {"Train": ended["logs"]["Evaluate"], **ended["logs"]}
    running = deepcopy(ended)
    running["run"] |= {"status": "Executing", "ended_at": None}
    running["verdict"] |= {"step": None}
    looks = iter([running] * 10 + [ended])
    monkeypatch.setattr(history, "whole", lambda *_: next(looks, ended))
    monkeypatch.setattr(history, "others_of", lambda *_: [])
    session = session_of("mine", pipeline=SimpleNamespace(find=str))
    with Pages(cast("Session", session)) as pages:
        Thread(target=pages.serve_forever, daemon=True).start()
        (seen,) = look({**SCREEN, "url": pages.address_of("mine", "abc"), "evaluate": FOLLOW})
        pages.shutdown()
    shown = ["mine in dev failed", "search", True, "Evaluate"]
    assert (seen["found"], seen["said"]) == (shown, [])


def test_a_live_page_says_that_it_could_not_be_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([running_run()])

    def whole(*_: object) -> dict[str, Any]:
        if record := next(looks, None):
            return record
        raise SLOWER

    monkeypatch.setattr(history, "whole", whole)
    monkeypatch.setattr(history, "others_of", lambda *_: [])
    session = session_of("mine", pipeline=SimpleNamespace(find=str))
    with Pages(cast("Session", session)) as pages:
        Thread(target=pages.serve_forever, daemon=True).start()
        (seen,) = look({**SCREEN, "url": pages.address_of("mine", "abc"), "evaluate": REFUSAL})
        pages.shutdown()
    shown = ["alert", f"what follows is of 03:00:50: {REFUSED}", "mine in dev is running"]
    assert (seen["found"], seen["said"]) == (shown, [])


def test_a_hundred_runs_are_listed_and_one_with_a_hundred_thousand_points_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arns = [{"PipelineExecutionArn": f"pipeline/p/execution/{number}"} for number in range(60)]
    pipeline = SimpleNamespace(executions=lambda: arns, find=str)
    session = session_of("mine", pipeline=pipeline)
    session.each = (session, session_of("houses", pipeline=pipeline))

    record, long = failed_run(), failed_run(POINTS)

    def brief(_: object, arn: str) -> dict[str, Any]:
        if arn.endswith("/7"):
            raise SLOWER
        return {**record, "run": {**record["run"], "id": arn.rpartition("/")[2]}}

    monkeypatch.setattr(history, "brief", brief)
    monkeypatch.setattr(history, "whole", lambda *_: long)
    monkeypatch.setattr(history, "others_of", lambda *_: [])
    rows = """[...document.querySelectorAll("tbody tr")].map(
      (row) => [row.querySelector("a").pathname.split("/").slice(2, 4), row.cells[2].innerText])"""
    with Pages(cast("Session", session)) as pages:
        Thread(target=pages.serve_forever, daemon=True).start()
        listed, shown = look(
            {**SCREEN, "url": pages.address, "evaluate": rows},
            {**SCREEN, "url": pages.address_of("houses", "49"), "evaluate": SHOWN},
        )
        pages.shutdown()
    print(f"opened in {listed['loaded']} and {shown['loaded']} ms")
    expected = [
        [[workload, str(number)], REFUSED if number == 7 else "Failed"]
        for workload in ("mine", "houses")
        for number in range(50)
    ]
    assert (listed["found"], listed["said"], shown["said"]) == (expected, [], [])
    assert f"{POINTS} points" in shown["found"]["text"]
