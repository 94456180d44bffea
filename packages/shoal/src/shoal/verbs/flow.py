"""A job as data: a tuple of phases, run in order by a short loop and undone in reverse order."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from shoal.aws.events import PhaseEnded, PhaseStarted, Report
from shoal.errors import AWS_ERRORS, ShoalError, refusal


@dataclass(frozen=True)
class Phase:
    """One part of a job.

    `undo` runs if `run` was begun, also if it failed half way, so it must accept that.
    """

    name: str
    run: Callable[[], None] | None = None
    undo: Callable[[], None] | None = None
    undo_name: str = ""


@dataclass(frozen=True)
class Failure:
    """The phase that failed, and its error."""

    phase: str
    error: BaseException

    @property
    def message(self) -> str:
        """Return what failed, for people."""
        return refusal(self.error) if isinstance(self.error, Exception) else "interrupted"


@dataclass(frozen=True)
class Outcome:
    """The seconds of each phase that ended well, and all failures, first cause first."""

    seconds: dict[str, float]
    failures: tuple[Failure, ...]

    @property
    def interrupted(self) -> bool:
        return any(isinstance(failure.error, KeyboardInterrupt) for failure in self.failures)


def run_phases(phases: Sequence[Phase], report: Report, shield: Callable[[], None]) -> Outcome:
    """Run the phases until one fails, call `shield`, then undo the begun ones, last first.

    After `shield` nothing interrupts. Expected failures (ShoalError, refusals of AWS, OSError,
    interruption) become part of the outcome; a bug is raised, after the undoing.
    """
    seconds: dict[str, float] = {}
    failures: list[Failure] = []
    begun: list[Phase] = []

    def attempt(name: str, work: Callable[[], None]) -> bool:
        started_at = time.monotonic()
        try:
            with phase(name, report):
                work()
        except (ShoalError, OSError, KeyboardInterrupt, *AWS_ERRORS) as error:
            failures.append(Failure(name, error))
            return False
        seconds[name] = time.monotonic() - started_at
        return True

    try:
        for each in phases:
            begun.append(each)
            if each.run and not attempt(each.name, each.run):
                break
    except KeyboardInterrupt as error:  # between two phases
        failures.append(Failure("interrupted", error))
    finally:
        shield()
        for each in reversed(begun):
            if each.undo:
                attempt(each.undo_name or f"undo {each.name}", each.undo)
    return Outcome(seconds, tuple(failures))


@contextmanager
def phase(name: str, report: Report) -> Iterator[None]:
    """Report the beginning and the end of what is done inside."""
    report(PhaseStarted(name))
    started_at, failed = time.monotonic(), True
    try:
        yield
        failed = False
    finally:
        report(PhaseEnded(name, time.monotonic() - started_at, failed))
