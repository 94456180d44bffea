"""What a run's page says of a failure, and what it lets run."""

from __future__ import annotations

import json
import math
import re
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from local_kit.tables import rows, table
from shoal.aws.execution import Execution, Step
from shoal.aws.logs import LogLine
from shoal.cli.commands.runs import keep_page
from shoal.errors import ToolMissingError
from shoal.page import history
from shoal.page.look import Look, noting
from shoal.page.page import page
from shoal.page.resources import calls_of
from shoal.page.results import answers_of
from shoal.page.step_log import Cause, rank_of
from tests.repository import ROOT
from tests.verbs.test_readings import BEGAN, cause_in, line, log_of

if TYPE_CHECKING:
    from shoal.verbs.workspace import Session


SECOND_HOST = "job/algo-2-1795489693"
HOSTS = {"algo-1": "job/algo-1-1795489693", "algo-2": SECOND_HOST}


def read(case: dict[str, Any]) -> tuple[list[LogLine], Cause | None]:
    """Return what a job printed, and the line of it that says why it failed."""
    printed = [
        line(each["text"], each["second"], HOSTS[each.get("host", "algo-1")])
        for each in case["printed"]
    ]
    return printed, case["cause"] and Cause(**case["cause"])


CAUSES = {name: read(case) for name, case in table(__file__, "cases.yaml")["causes"].items()}


@pytest.mark.parametrize(("lines", "cause"), CAUSES.values(), ids=CAUSES)
def test_the_cause_is_the_first_line_that_says_why(
    lines: list[LogLine], cause: Cause | None
) -> None:
    assert cause_in(lines) == cause


def test_of_the_errors_of_two_runs_the_one_that_the_step_failed_with_is_the_cause() -> None:
    lines = [
        line("[ERROR] SmokeTestError: 2 of 10 requests passed", 1, "of-another-run"),
        line("[ERROR] SmokeTestError: 3 of 10 requests passed", 2, "of-this-run"),
    ]
    reason = "ClientError: Lambda function f failed. SmokeTestError: 3 of 10 requests passed"
    assert cause_in(lines, reason) == Cause("SmokeTestError: 3 of 10 requests passed")
    killed = "ClientError: Lambda function f failed. Runtime.ExitError: signal: SIGKILL"
    assert cause_in(lines, killed) is None


def test_text_from_outside_stays_in_the_data_of_the_page() -> None:
    hostile = "</script><script>alert(1)</script><!--"
    text = page({"logs": {"Train": {"cut": 0, "lines": [["", hostile, None, hostile]]}}}, ROOT)
    assert hostile not in text
    assert text.count("</script>") == 2
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy
    assert re.fullmatch(
        r"default-src 'none'; script-src 'sha256-[\w+/=]+'; style-src 'sha256-[\w+/=]+'", policy[1]
    )
    assert "://" not in text.replace("http://www.w3.org/2000/svg", "").replace(
        "https://github.com/leeoniya/uPlot", ""
    )


def test_a_page_holds_what_json_and_utf_8_cannot_say() -> None:
    answer = {"shown": [math.nan, math.inf, "\ud800"]}
    text = page(answer, ROOT)
    assert text.encode()
    data = re.search(r'id="run">(.*?)</script>', text)
    assert data
    assert json.loads(data[1], parse_constant=pytest.fail) == {"shown": [None, None, "\ud800"]}
    assert json.loads(history.json_of(answer)) == {"shown": [None, None, "\ud800"]}


def test_a_page_without_its_library_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolMissingError, match="run `make install`"):
        page({}, tmp_path)


def row(run: str, *passed: bool | None, **parameters: str) -> dict[str, Any]:
    """Return the row of a run."""
    return {
        "run": run,
        "status": "Succeeded",
        "started_at": BEGAN.isoformat(),
        "seconds": 60.0,
        "metrics": {},
        "passed": list(passed),
        "parameters": parameters,
        "commit": None,
        "usd": 0.5,
    }


@pytest.mark.parametrize(("passed", "word"), rows(__file__, "cases.yaml", "gates"))
def test_a_list_says_in_a_word_how_the_gate_went(passed: list[bool | None], word: str) -> None:
    assert history.gate_of(row("a", *passed)) == word


def test_a_list_has_only_the_parameters_that_differ() -> None:
    rows = [
        row("a", Epochs="1", Seed="1", Data="s3://bucket/datasets/mnist/train"),
        row("b", Epochs="2", Seed="1"),
    ]
    assert history.differing_parameters(rows) == ["Epochs", "Data"]
    assert history.differing_parameters(rows[:1]) == []
    assert [history.end_of(each) for each in rows[0]["parameters"].values()] == [
        "1",
        "1",
        ".../datasets/mnist/train",
    ]


def test_a_run_is_over_when_all_it_made_is_known_to_be_gone() -> None:
    run = {"ended_at": BEGAN.isoformat()}
    records = [{"run": run, "made": [{"gone": gone}]} for gone in (True, False, None)]
    assert [bool(history.is_over(each)) for each in records] == [True, False, False]


def test_calls_are_counted_by_role_while_the_run_went_on_the_denied_first(tmp_path: Path) -> None:
    def entry(second: int, role: str, operation: str, **more: str) -> str:
        caller = f"arn:aws:sts::111122223333:assumed-role/{role}/session"
        time = (BEGAN + timedelta(seconds=second)).isoformat()
        call = {"time": time, "service": "s3", "operation": operation, "caller": caller}
        return json.dumps(call | more)

    log = tmp_path / "requests.jsonl"
    entries = [
        entry(0, "shoal-dev-train", "TooEarly"),
        entry(2, "shoal-dev-train", "GetObject"),
        entry(3, "shoal-dev-train", "GetObject"),
        entry(4, "shoal-dev-train", "PutObject", error="AccessDenied"),
        entry(4, "shoal-prod-train", "PutObject", error="AccessDenied"),
        entry(400, "shoal-dev-train", "TooLate"),
    ]
    log.write_text("".join(f"{each}\n" for each in entries))
    place: Any = SimpleNamespace(requests=log, pipeline=SimpleNamespace(name="shoal-dev"))
    began, now = BEGAN + timedelta(seconds=1), BEGAN + timedelta(seconds=5)
    look = Look(place, Execution("p/abc", "Executing", "", began, ()), {}, {}, now)
    assert calls_of(look) == [
        {"role": "shoal-dev-train", "call": "s3:PutObject", "count": 1, "denied": True},
        {"role": "shoal-dev-train", "call": "s3:GetObject", "count": 2, "denied": False},
    ]


def test_a_curve_is_of_the_rank_that_a_launcher_puts_in_front() -> None:
    lines = [
        line("[1,0]<stdout>:epoch=1 step=0/20 train_loss=0.9", 0),
        line("[1,0]<stdout>:epoch=1 step=10/20 train_loss=0.5", 1),
        line("[1,1]<stdout>:epoch=1 step=10/20 train_loss=0.7", 1),
        line("[1,0]<stdout>:epoch=1 train_loss=0.4", 2),
        line("[1,mpirank:2,algo-2]<stdout>:epoch=2 step=5/20 train_loss=0.3", 3),
    ]
    assert [
        (each["host"], each["rank"], each["points"]) for each in log_of(lines).curves.records()
    ] == [
        ("algo-1", 0, [[0.0, 0.9, 0.0], [10.0, 0.5, 1.0], [20.0, 0.4, 2.0]]),
        ("algo-1", 1, [[10.0, 0.7, 1.0]]),
        ("algo-2", 2, [[25.0, 0.3, 3.0]]),
    ]


NO_PROGRESS = {
    "repeated": f"milliseconds of a step: 1{'=111' * 20}!",
    "two-points": "milliseconds of a step: forward=1.2.3",
    "long-time": f"milliseconds of a step: forward={'1' * 400}",
    "long-rank": f"mpirank:{'1' * 5000}",
    "brackets": f"[{'[' * 5000}",
    "dots": "A." * 5000,
    "long-step": f"loss=1 step={'1' * 400}/1",
    "long-step-of-an-epoch": f"loss=1 epoch=1 step={'1' * 400}/1",
}


@pytest.mark.parametrize("text", NO_PROGRESS.values(), ids=NO_PROGRESS)
def test_a_line_that_looks_like_progress_and_is_none_is_passed_over(text: str) -> None:
    lines = [line(text, 1)]
    log = log_of(lines)
    assert [each["points"] for each in log.curves.records()] in ([], [[[1.0, 1.0, 1.0]]])
    assert (rank_of(text), cause_in(lines), list(log.parts())) == (None, None, [])


def test_the_parts_of_a_step_are_of_the_last_line_of_each_host() -> None:
    text = "milliseconds of a step of rank 0, mean of 5: data=1.2 forward=20.5 whole=21.70"
    (parts,) = log_of([line(text.replace("20.5", "9"), 1), line(text, 2)]).parts()
    assert parts == {
        "host": "algo-1",
        "milliseconds": {"data": 1.2, "forward": 20.5},
    }


def test_a_part_of_a_run_that_cannot_be_read_is_left_out_with_a_note() -> None:
    smoke_test = {"OutputParameters": [{"Name": "answers", "Value": "5"}]}
    step = Step("SmokeTest", "Lambda", "Succeeded", metadata={"Lambda": smoke_test})
    unread: list[str] = []
    with noting("curves", unread):
        float(10**400)
    with noting("answers", unread):
        answers_of(Execution("arn", "Succeeded", "", BEGAN, (step,)))
    assert unread == [
        "curves: int too large to convert to float",
        "answers: 'int' object is not iterable",
    ]


def test_a_page_that_fails_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    keep_page(cast("Session", object()), "arn")
    (notice,) = capsys.readouterr().err.splitlines()
    assert notice.startswith("the page of the run is not kept: AttributeError: ")
