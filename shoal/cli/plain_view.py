"""Events as plain lines with the time of day: for logs, pipes and CI."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TextIO

from config.errors import one_line
from shoal.verbs.events import (
    Event,
    ExecutionChanged,
    Note,
    PhaseEnded,
    PhaseStarted,
    Planned,
    Trained,
    Transferred,
)
from shoal.verbs.execution import Execution
from shoal.verbs.metrics import Epoch, Metrics, Parts, Progress

_PROGRESS_EVERY_S = 2.0


class PlainView:
    """Prints the important events; progress of training and transfers at most every two seconds."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._statuses: dict[str, str] = {}
        self._next_progress_at = 0.0
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
            case Transferred(name, done, total) if done == total or self._is_due():
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
        elif isinstance(metrics, Epoch):
            self._print(
                f"{step}: epoch {metrics.epoch}: test loss {metrics.test_loss:.4f}, test accuracy"
                f" {metrics.test_accuracy:.2%}"
            )
        elif self._is_due():
            self._print(
                f"{step}: epoch {metrics.epoch} step {metrics.step}/{metrics.steps}: loss"
                f" {metrics.train_loss:.4f}, {metrics.images_per_second:,.0f} images/s on"
                f" {self._trainers(metrics)}, {metrics.elapsed_s:.0f} s"
            )

    def _trainers(self, progress: Progress) -> str:
        return str(self._trained_by or f"a world of {progress.world_size}")

    def _is_due(self) -> bool:
        now = time.monotonic()
        if now < self._next_progress_at:
            return False
        self._next_progress_at = now + _PROGRESS_EVERY_S
        return True

    def _print(self, text: str) -> None:
        now = datetime.now(UTC).astimezone().strftime("%H:%M:%S")
        print(f"{now} {text}", file=self._stream, flush=True)
