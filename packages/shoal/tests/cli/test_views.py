"""How events look, in a pipe and on a terminal."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from shoal.aws.events import (
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
from shoal.cli.commands.models.executions import print_execution
from shoal.cli.live_view import LiveView
from shoal.cli.plain_view import PlainView

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


def plain(*events: Event) -> str:
    stream = io.StringIO()
    with PlainView(stream) as view:
        for event in events:
            view(event)
    return stream.getvalue()


def live(*events: Event) -> str:
    stream = io.StringIO()
    with LiveView(Console(file=stream, force_terminal=True, width=120)) as view:
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
        (
            Planned((("Train", "Training"), ("Evaluate", "Processing")), 2),
            "steps: Train -> Evaluate",
        ),
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
    line = plain(event)
    assert text in line
    assert line[2] == line[5] == ":"


def test_a_reason_that_a_job_wrote_steers_no_terminal() -> None:
    reason = "[/opt/ml] [link=http://example.com]\x1b[2J\x1b]52;c;ZXZpbA==\x07\nforged"
    failed = Step("Train", "Training", "Failed", BEGAN, BEGAN, reason)
    table = io.StringIO()
    print_execution(
        Console(file=table, soft_wrap=True),
        Execution("arn:aws:x/abc", "Failed", reason, BEGAN, (failed,)),
    )
    shown = r"[/opt/ml] [link=http://example.com]\x1b[2J\x1b]52;c;ZXZpbA==\x07\nforged"
    assert plain(changed(failed)).endswith(f"Failed after 0.0 s: {shown}\n")
    assert table.getvalue().startswith(f"execution abc: Failed: {shown}\n")
    assert "\x1b" not in table.getvalue()


def test_a_long_reason_is_shown_to_its_end_below_the_steps() -> None:
    """A traceback says at its end what it is about."""
    reason = f"Traceback (most recent call last):{' frame' * 200} ValueError: no column price"
    shown = io.StringIO()
    print_execution(
        Console(file=shown, soft_wrap=True, width=80),
        Execution(
            "arn:aws:x/abc",
            "Failed",
            "",
            BEGAN,
            (Step("Train", "Training", "Failed", BEGAN, BEGAN, reason),),
        ),
    )
    assert shown.getvalue().splitlines()[-1] == f"Train: {reason}"


def test_plain_lines_say_each_status_of_a_step_once() -> None:
    assert plain(changed(TRAIN), changed(TRAIN), changed(TRAINED)).count("step Train") == 2


def test_plain_progress_says_who_trains_once_the_job_has() -> None:
    assert "rows/s on 2 ranks" in plain(RANKS, PROGRESS)


def test_plain_progress_is_not_printed_for_every_step() -> None:
    assert plain(*[PROGRESS, EPOCH] * 50).count("epoch 1") == 2


def test_the_live_display_shows_phases_steps_and_training() -> None:
    display = live(
        PhaseStarted("execute"),
        Planned((("Train", "Training"), ("Evaluate", "Processing")), 2),
        changed(TRAIN),
        RANKS,
        PROGRESS,
    )
    assert all(
        text in display
        for text in (
            "execute",
            "Train",
            "Evaluate",
            "epoch 1/2",
            "train:rows_per_second 3,457 rows/s on 2 ranks",
            "120/940 steps",
        )
    )


def test_the_live_display_draws_the_steps_of_a_training_without_epochs() -> None:
    display = live(changed(TRAIN), Trained("Train", Progress(READINGS, Position(0, 120, 470))))
    assert "120/470 steps" in display
    assert "epoch" not in display


def test_the_live_display_marks_what_failed() -> None:
    failed = PhaseEnded("execute", 3.0, failed=True)
    display = live(
        PhaseStarted("execute"),
        Planned((("Train", "Training"),), None),
        changed(TRAINED, REFUSED),
        failed,
    )
    assert display.count("✗") >= 2
    assert "GateFailed" in display
