"""Events as lines with the time of day; on a terminal, a last line shows what goes on now."""

import textwrap
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime

from rich.console import Console
from rich.text import Text

from shoal.aws import events
from shoal.aws.execution import Execution
from shoal.aws.metrics import Metrics, Parts, trained_text
from shoal.settings.parsing.errors import one_line

_PROGRESS_EVERY_S = 2.0
_REASON = 160
"""Characters of a step's reason, which may quote a whole traceback."""


class View:
    """Prints the important events; progress is a terminal's last line, and else one every 2 s."""

    def __init__(self, console: Console) -> None:
        self._console = console
        is_plain = not console.is_terminal or console.is_dumb_terminal
        self.last_line = None if is_plain else console.status("")
        self._statuses: dict[str, str] = {}
        self._next_progress_at: dict[Hashable, float] = {}
        self._trained_by: Parts | None = None

    def __call__(self, event: events.Event) -> None:
        match event:
            case events.PhaseStarted(name):
                self._print(f"{name} ...")
                self._show(name)
            case events.PhaseEnded(name, seconds, failed):
                self._print(f"{name}: {'FAILED' if failed else 'done'} after {seconds:.1f} s")
            case events.Note(text):
                self._print(text)
            case events.Planned(steps):
                self._print(f"steps: {' -> '.join(name for name, _ in steps)}")
            case events.Transferred(name, done, total):
                kind = (name, "end") if done == total else "sent"
                unit, size = ("MB", 1e6) if total >= 1e6 else ("kB", 1e3)
                self._progress(
                    f"sent {done / size:.1f} of {total / size:.1f} {unit} ({name})", kind
                )
            case events.ExecutionChanged(execution):
                self._print_steps(execution)
            case events.Trained(step, metrics):
                self._train(step, metrics)
            case events.Detail(text):
                self._show(text)

    def _print_steps(self, execution: Execution) -> None:
        for step in execution.steps:
            if self._statuses.get(step.name) != step.status:
                self._statuses[step.name] = step.status
                seconds = f" after {step.seconds():.1f} s" if step.has_ended else ""
                reason = f": {_shortened(step.failure_reason)}" if step.failure_reason else ""
                self._print(f"step {step.name} ({step.type}): {step.status}{seconds}{reason}")

    def _train(self, step: str, metrics: Metrics) -> None:
        if isinstance(metrics, Parts):
            self._trained_by = metrics
            return
        place = f"{metrics.position}: " if metrics.position else ""
        text = trained_text(metrics.readings, self._trained_by, metrics)
        kind = frozenset(reading.name for reading in metrics.readings)
        self._progress(f"{step}: {place}{text}", kind)

    def _progress(self, text: str, kind: Hashable) -> None:
        """Show a line, or print it: the first of its kind, and one every two seconds."""
        now = time.monotonic()
        if self.last_line:
            self._show(text)
        elif now >= self._next_progress_at.get(kind, now):
            self._next_progress_at[kind] = now + _PROGRESS_EVERY_S
            self._print(text)

    def _show(self, text: str) -> None:
        if self.last_line:
            line = Text(one_line(text.strip()))
            line.truncate(self._console.width - 4, overflow="ellipsis")  # a spinner is before it
            self.last_line.update(line)

    def _print(self, text: str) -> None:
        self._console.print(Text(f"{datetime.now():%H:%M:%S} {text}"), soft_wrap=True)  # noqa: DTZ005 - the user's clock


def _shortened(reason: str) -> str:
    """Return a long reason's first words; the end of a run has what matters of it."""
    if len(reason) > _REASON:
        short = textwrap.shorten(reason, _REASON, placeholder=" ...")
        reason = short if short != "..." else reason
    return one_line(reason)


@contextmanager
def open_view() -> Iterator[View]:
    """Yield what takes events; the last line of a terminal is there until the end."""
    view = View(Console())
    with view.last_line or nullcontext():
        yield view
