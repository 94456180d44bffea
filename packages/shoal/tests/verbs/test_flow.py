"""Phases and how they are undone."""

from __future__ import annotations

from functools import partial

import pytest

from shoal.aws.events import Event, PhaseEnded
from shoal.errors import ShoalError
from shoal.verbs.flow import Phase, run_phases

Log = list[str]


@pytest.fixture
def log() -> Log:
    return []


def note(log: Log, text: str) -> Phase:
    return Phase(text, partial(log.append, text), partial(log.append, f"undo {text}"))


def fail(log: Log, error: BaseException) -> Phase:
    def work() -> None:
        raise error

    return Phase("bad", work, partial(log.append, "undo bad"))


def ignore(_event: Event) -> None:
    """Ignore the event, in tests that do not look at events."""


def test_phases_run_in_order_and_are_undone_in_reverse(log: Log) -> None:
    phases = [note(log, "a"), note(log, "b")]
    run_phases(phases, ignore, partial(log.append, "shield"))
    assert log == ["a", "b", "shield", "undo b", "undo a"]


def test_after_a_failure_nothing_more_is_run_and_everything_begun_is_undone(log: Log) -> None:
    phases = [note(log, "a"), fail(log, ShoalError("no")), note(log, "c")]
    outcome = run_phases(phases, ignore, lambda: None)
    assert log == ["a", "undo bad", "undo a"]
    assert [failure.phase for failure in outcome.failures] == ["bad"]


def test_an_interruption_is_an_outcome_and_is_undone(log: Log) -> None:
    phases = [note(log, "a"), fail(log, KeyboardInterrupt())]
    outcome = run_phases(phases, ignore, lambda: None)
    assert outcome.interrupted
    assert log[-1] == "undo a"


def test_an_undoing_that_fails_does_not_stop_the_others(log: Log) -> None:

    def refuse() -> None:
        raise ShoalError("stuck")

    outcome = run_phases([note(log, "a"), Phase("b", None, refuse)], ignore, lambda: None)
    assert log[-1] == "undo a"
    assert str(outcome.failures[0].error) == "stuck"


def test_a_bug_is_raised_after_the_undoing(log: Log) -> None:
    phases = [note(log, "a"), fail(log, ZeroDivisionError())]
    with pytest.raises(ZeroDivisionError):
        run_phases(phases, ignore, lambda: None)
    assert log[-1] == "undo a"


def test_only_phases_that_ended_well_have_seconds(log: Log) -> None:
    phases = [note(log, "a"), fail(log, ShoalError("no"))]
    outcome = run_phases(phases, ignore, lambda: None)
    assert "a" in outcome.seconds
    assert "bad" not in outcome.seconds


def test_each_end_says_whether_it_failed(log: Log) -> None:
    events: list[Event] = []
    run_phases([Phase("a", lambda: None), fail(log, ShoalError("no"))], events.append, lambda: None)
    ends = [event.failed for event in events if isinstance(event, PhaseEnded)]
    assert ends == [False, True, False]
