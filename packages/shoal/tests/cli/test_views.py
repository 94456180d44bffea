"""How events look, in a pipe and on a terminal."""

import io
import re
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from shoal.aws.events import (
    Detail,
    Event,
    ExecutionChanged,
    Note,
    PhaseEnded,
    PhaseStarted,
    Planned,
    Trained,
    Transferred,
)
from shoal.aws.execution import Execution, Step
from shoal.aws.metrics import Parts, Position, Progress, Reading
from shoal.aws.target import Target
from shoal.cli.commands.executions import lines_of, status
from shoal.cli.commands.local import result_of
from shoal.cli.view import View
from shoal.page.look import Look
from tests.repository import ROOT

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
TRAIN = Step("Train", "Training", "Executing", BEGAN)
TRAINED = Step("Train", "Training", "Succeeded", BEGAN, BEGAN + timedelta(seconds=12.5))
REFUSED = Step("GateFailed", "Fail", "Failed", BEGAN, BEGAN, "0.5 is below 0.98")
READINGS = (Reading("train:loss", 0.25), Reading("train:rows_per_second", 3456.7, "rows/s"))
PROGRESS = Trained("Train", Progress(READINGS, Position(1, 120, 470), 4.1, 2))
EPOCH = Trained("Train", Progress((Reading("test:rmse", 0.03),), Position(1), 8.2))

RANKS = Trained("Train", Parts(2, (("ranks", 2),)))


def changed(*steps: Step) -> ExecutionChanged:
    return ExecutionChanged(Execution("arn:aws:x/abc", "Executing", "", BEGAN, steps))


def shown(*events: Event, on_a_terminal: bool = False) -> str:
    stream = io.StringIO()
    view = View(Console(file=stream, force_terminal=on_a_terminal, width=120))
    with view.last_line or nullcontext():
        for event in events:
            view(event)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (PhaseStarted("deploy"), "deploy ..."),
        (PhaseEnded("deploy", 12.34, failed=False), "deploy: done after 12.3 s"),
        (PhaseEnded("deploy", 1.0, failed=True), "deploy: FAILED after 1.0 s"),
        (Note("by the way"), "by the way"),
        (Planned((("Train", "Training"), ("Evaluate", "Processing"))), "steps: Train -> Evaluate"),
        (changed(TRAINED), "step Train (Training): Succeeded after 12.5 s"),
        (changed(REFUSED), "GateFailed (Fail): Failed after 0.0 s: 0.5 is below 0.98"),
        (
            PROGRESS,
            "epoch 1 step 120/470: train:loss 0.25, train:rows_per_second 3,457 rows/s on a world"
            " of 2, 4 s",
        ),
        (EPOCH, "epoch 1: test:rmse 0.03, 8 s"),
        (Trained("Train", Progress(READINGS[:1], Position(0, 5, 9))), "Train: step 5/9: train:"),
        (Trained("Train", Progress(READINGS[:1])), "Train: train:loss 0.25"),
        (Transferred("images", 5_000_000, 5_000_000), "sent 5.0 of 5.0 MB (images)"),
    ],
)
def test_plain_lines_carry_the_time_and_what_happened(event: Event, text: str) -> None:
    line = shown(event)
    assert text in line
    assert line[2] == line[5] == ":"


def test_a_reason_that_a_job_wrote_steers_no_terminal() -> None:
    reason = "[/opt/ml] [link=http://example.com]\x1b[2J\x1b]52;c;ZXZpbA==\x07\nforged"
    failed = Step("Train", "Training", "Failed", BEGAN, BEGAN, reason)
    table = list(lines_of(Execution("arn:aws:x/abc", "Failed", reason, BEGAN, (failed,))))
    text = r"[/opt/ml] [link=http://example.com]\x1b[2J\x1b]52;c;ZXZpbA==\x07\nforged"
    assert shown(changed(failed)).endswith(f"Failed after 0.0 s: {text}\n")
    assert (table[0], table[-1]) == (f"execution abc: Failed: {text}", f"Train: {text}")


def test_a_long_reason_is_shown_to_its_end_below_the_steps() -> None:
    """A traceback says at its end what it is about."""
    reason = f"Traceback (most recent call last):{' frame' * 200} ValueError: no column price"
    failed = Step("Train", "Training", "Failed", BEGAN, BEGAN, reason)
    *_, last = lines_of(Execution("arn:aws:x/abc", "Failed", "", BEGAN, (failed,)))
    assert last == f"Train: {reason}"


OPEN = {"EnableRemoteDebug": True}
COMMAND = "aws ssm start-session --region us-east-1 --target sagemaker-training-job:Train-Xy_algo-1"


@pytest.mark.parametrize(
    ("job", "url", "command"),
    [
        ({"RemoteDebugConfig": OPEN}, None, COMMAND),
        (
            {"RemoteDebugConfig": OPEN, "ResourceConfig": {"InstanceCount": 2}},
            None,
            f"{COMMAND} (2 hosts, to _algo-2)",
        ),
        ({"RemoteDebugConfig": OPEN}, "http://localhost:1", None),
        ({}, None, None),
        ({"RemoteDebugConfig": OPEN, "SecondaryStatus": "Pending"}, None, None),
    ],
)
def test_the_command_for_a_shell_is_that_of_a_training_that_lets_people_in(
    monkeypatch: pytest.MonkeyPatch, job: dict[str, Any], url: str | None, command: str | None
) -> None:
    known = {"SecondaryStatus": "Training", "ResourceConfig": {"InstanceCount": 1}} | job
    monkeypatch.setattr(Look, "trainings", lambda _: [(TRAIN, known | {"name": "Train-Xy"})])
    execution = Execution("arn:aws:x/abc", "Executing", "", BEGAN, ())
    target = Target("111122223333", "us-east-1", url)
    session = SimpleNamespace(
        target=target,
        place=SimpleNamespace(target=target),
        pipeline=SimpleNamespace(look=lambda _: execution),
        arguments="dev",
        scores=False,
    )
    session.find = lambda arn: (session, arn)
    workspace = SimpleNamespace(root=ROOT, open=lambda *_: session)
    result = CliRunner().invoke(status, ["dev", "abc"], obj=workspace, catch_exceptions=False)
    shells = [line for line in result.stdout.splitlines() if "shell" in line]
    assert shells == ([f"a shell in it: {command}"] if command else [])


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("short", "short"),
        ("word " * 100, f"{'word ' * 31}..."),
        ("x" * 300, "x" * 300),
        ("a" + "\nb" * 300, f"a{' b' * 77} ..."),
    ],
    ids=["short", "words", "one-word", "lines"],
)
def test_a_line_of_a_step_has_whole_words_of_its_reason(reason: str, said: str) -> None:
    failed = Step("Train", "Training", "Failed", BEGAN, BEGAN, reason)
    assert shown(changed(failed)).endswith(f"Failed after 0.0 s: {said}\n")


RUN = {
    "run": {"workload": "mine", "status": "Succeeded"},
    "verdict": {"next": "shoal new NAME\nshoal local up dev"},
    "metrics": {"values": {"accuracy": 0.98, "macro_f1": 0.98148}},
    "gates": [{"metric": "macro_f1", "limit": "at least 0.9", "value": 0.98148, "passed": True}],
    "package": {"arn": "arn", "approval": "PendingManualApproval"},
    "answers": [{"passed": True}],
}
CREATED = [{"kind": kind, "name": "a"} for kind in ("role", "role", "vpc")]


@pytest.mark.parametrize(
    ("run", "left", "made", "last"),
    [
        (RUN, [], "3 resources of 2 kinds, left 0", "macro_f1 0.98148, at least 0.9: passed"),
        (RUN | {"gates": []}, [], "3 resources of 2 kinds, left 0", "mine succeeded"),
        (None, CREATED[2:], "3 resources of 2 kinds, left 1: vpc a", "none, because nothing ran"),
        (None, None, "3 resources of 2 kinds; what is left is not known", None),
    ],
    ids=["gated", "without-a-gate", "left-behind", "not-looked"],
)
def test_a_demo_ends_with_what_its_gates_measured(
    run: dict[str, Any] | None, left: list[dict[str, str]] | None, made: str, last: str | None
) -> None:
    summary = {"created": CREATED, "left_behind": left, "seconds": {"total": 1.0}}
    lines = list(result_of(run, summary, None))
    assert ("created", made) in lines
    assert last in (None, lines[-1][1])


def test_plain_lines_say_each_status_of_a_step_once() -> None:
    assert shown(changed(TRAIN), changed(TRAIN), changed(TRAINED)).count("step Train") == 2


def test_plain_progress_says_who_trains_once_the_job_has() -> None:
    assert "rows/s on 2 ranks" in shown(RANKS, PROGRESS)


def test_plain_progress_is_not_printed_for_every_step() -> None:
    assert shown(*[PROGRESS, EPOCH] * 50).count("epoch 1") == 2


def test_a_terminal_shows_progress_in_its_last_line_only() -> None:
    long = Detail("creating stack... " + "x" * 200)
    display = shown(
        PhaseStarted("execute"), changed(TRAINED), RANKS, PROGRESS, long, EPOCH, on_a_terminal=True
    )
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", display).splitlines()
    assert [line[9:] for line in lines if re.match(r"\d\d:\d\d:\d\d ", line)] == [
        "execute ...",
        "step Train (Training): Succeeded after 12.5 s",
    ]
    assert "Train: epoch 1: test:rmse 0.03 on 2 ranks, 8 s" in display
