"""Phases and how they are undone."""

from __future__ import annotations

import pytest

from shoal.aws.events import Event, PhaseEnded
from shoal.errors import ShoalError
from shoal.verbs.flow import Phase, run_phases

Log = list[str]


def note(text: str) -> Phase[Log]:
    return Phase(text, lambda log: log.append(text), lambda log: log.append(f"undo {text}"))


def fail(error: BaseException) -> Phase[Log]:
    def work(_log: Log) -> None:
        raise error

    return Phase("bad", work, lambda log: log.append("undo bad"))


def ignore(_event: Event) -> None:
    """Ignore the event, in tests that do not look at events."""


def test_phases_run_in_order_and_are_undone_in_reverse() -> None:
    log: Log = []
    run_phases([note("a"), note("b")], log, ignore, lambda: log.append("shield"))
    assert log == ["a", "b", "shield", "undo b", "undo a"]


def test_after_a_failure_nothing_more_is_run_and_everything_begun_is_undone() -> None:
    log: Log = []
    outcome = run_phases([note("a"), fail(ShoalError("no")), note("c")], log, ignore, lambda: None)
    assert log == ["a", "undo bad", "undo a"]
    assert [failure.phase for failure in outcome.failures] == ["bad"]


def test_an_interruption_is_an_outcome_and_is_undone() -> None:
    log: Log = []
    outcome = run_phases([note("a"), fail(KeyboardInterrupt())], log, ignore, lambda: None)
    assert outcome.interrupted
    assert log[-1] == "undo a"


def test_an_undoing_that_fails_does_not_stop_the_others() -> None:
    log: Log = []

    def refuse(_log: Log) -> None:
        raise ShoalError("stuck")

    outcome = run_phases([note("a"), Phase[Log]("b", None, refuse)], log, ignore, lambda: None)
    assert log[-1] == "undo a"
    assert str(outcome.failures[0].error) == "stuck"


def test_a_bug_is_raised_after_the_undoing() -> None:
    log: Log = []
    with pytest.raises(ZeroDivisionError):
        run_phases([note("a"), fail(ZeroDivisionError())], log, ignore, lambda: None)
    assert log[-1] == "undo a"


def test_only_phases_that_ended_well_have_seconds() -> None:
    outcome = run_phases([note("a"), fail(ShoalError("no"))], [], ignore, lambda: None)
    assert "a" in outcome.seconds
    assert "bad" not in outcome.seconds


def test_each_end_says_whether_it_failed() -> None:
    events: list[Event] = []
    run_phases(
        [Phase[Log]("a", lambda _: None), fail(ShoalError("no"))],
        [],
        events.append,
        lambda: None,
    )
    assert [event.failed for event in events if isinstance(event, PhaseEnded)] == [
        False,
        True,
        False,
    ]
