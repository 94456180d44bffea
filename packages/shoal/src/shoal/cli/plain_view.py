"""Events as plain lines with the time of day: for logs, pipes and CI."""

from __future__ import annotations

import time
from collections.abc import Hashable
from datetime import UTC, datetime
from typing import TextIO

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
from shoal.aws.execution import Execution
from shoal.aws.metrics import Metrics, Parts, Progress, trained_text
from shoal.settings.parsing.errors import one_line

_PROGRESS_EVERY_S = 2.0


class PlainView:
    """Prints the important events; progress of training and transfers at most every two seconds."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._statuses: dict[str, str] = {}
        self._next_progress_at: dict[Hashable, float] = {}
        self._trained_by: Parts | None = None

    def __enter__(self) -> PlainView:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.flush()

    def __call__(self, event: Event) -> None:
        match event:
            case PhaseStarted(name):
                self._print(f"{name} ...")
            case PhaseEnded(name, seconds, failed):
                self._print(f"{name}: {'FAILED' if failed else 'done'} after {seconds:.1f} s")
            case Note(text):
                self._print(text)
            case Planned(steps, _):
                self._print(f"steps: {' -> '.join(name for name, _ in steps)}")
            case Transferred(name, done, total) if done == total or self._is_due(Transferred):
                self._print(f"sent {done / 1e6:.1f} of {total / 1e6:.1f} MB ({name})")
            case ExecutionChanged(execution):
                self._show_execution(execution)
            case Trained(step, metrics):
                self._show_metrics(step, metrics)
            case _:
                pass

    def _show_execution(self, execution: Execution) -> None:
        for step in execution.steps:
            if self._statuses.get(step.name) != step.status:
                self._statuses[step.name] = step.status
                seconds = f" after {step.seconds():.1f} s" if step.has_ended else ""
                reason = f": {one_line(step.failure_reason)}" if step.failure_reason else ""
                self._print(f"step {step.name} ({step.type}): {step.status}{seconds}{reason}")

    def _show_metrics(self, step: str, metrics: Metrics) -> None:
        if isinstance(metrics, Parts):
            self._trained_by = metrics
        elif self._is_due(frozenset(reading.name for reading in metrics.readings)):
            text = trained_text(metrics.readings, self._trained_by, metrics)
            self._print(f"{step}: {_place(metrics)}{text}")

    def _is_due(self, kind: Hashable) -> bool:
        """Return whether to print a line of this kind: the first, and one every two seconds."""
        now = time.monotonic()
        if now < self._next_progress_at.get(kind, now):
            return False
        self._next_progress_at[kind] = now + _PROGRESS_EVERY_S
        return True

    def _print(self, text: str) -> None:
        now = datetime.now(UTC).astimezone().strftime("%H:%M:%S")
        print(f"{now} {text}", file=self._stream, flush=True)


def _place(metrics: Progress) -> str:
    return f"{metrics.position}: " if metrics.position else ""
