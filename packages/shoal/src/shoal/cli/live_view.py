"""Events as one live display for a terminal: phases, steps, a bar for epochs, and the last
detail.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from shoal.aws.events import (
    Detail,
    Event,
    ExecutionChanged,
    Note,
    PhaseEnded,
    PhaseStarted,
    Planned,
    StepLogged,
    Trained,
    Transferred,
)
from shoal.aws.execution import NOT_STARTED, Execution, Step
from shoal.aws.metrics import Metrics, Parts, Position, Progress, Reading, trained_text

_MARKS = {
    "Succeeded": "[green]✓[/]",
    "Failed": "[red]✗[/]",
    "Stopped": "[yellow]■[/]",
    NOT_STARTED: "[dim]·[/]",
}
_BAR_WIDTH = 40


@dataclass
class _Phase:
    name: str
    started_at: float
    seconds: float | None = None
    failed: bool = False


class LiveView:
    """A display of what the last events said, redrawn eight times a second."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._phases: list[_Phase] = []
        self._plan: tuple[tuple[str, str], ...] = ()
        self._epochs: int | None = None
        self._execution: Execution | None = None
        self._progress: Progress | None = None
        self._position: Position | None = None
        self._readings: dict[str, Reading] = {}
        self._trained_by: Parts | None = None
        self._transfer: Transferred | None = None
        self._detail = ""
        self._spinner = Spinner("dots")
        self._live = Live(
            console=console,
            get_renderable=self._render,
            refresh_per_second=8,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._detail = ""
        self._live.stop()

    def __call__(self, event: Event) -> None:
        match event:
            case PhaseStarted(name):
                self._phases.append(_Phase(name, time.monotonic()))
                self._detail, self._transfer = "", None
            case PhaseEnded(_, seconds, failed):
                self._phases[-1].seconds, self._phases[-1].failed = seconds, failed
                self._detail, self._transfer = "", None
            case Planned(steps, epochs):
                self._plan, self._epochs = steps, epochs
            case ExecutionChanged(execution):
                self._execution = execution
            case Trained(_, metrics):
                self._remember(metrics)
            case Transferred():
                self._transfer = event
            case Note(text):
                self._console.print(text, highlight=False, markup=False)
            case Detail(text) | StepLogged(_, text):
                self._detail = text

    def _remember(self, metrics: Metrics) -> None:
        if isinstance(metrics, Parts):
            self._trained_by = metrics
            return
        self._progress = metrics
        self._readings |= {reading.name: reading for reading in metrics.readings}
        if metrics.position and (metrics.position.steps or not self._position):
            self._position = metrics.position

    def _render(self) -> RenderableType:
        parts: list[RenderableType] = [self._phase_line()]
        if self._plan:
            parts.append(self._step_table())
        if self._progress:
            parts.append(self._training(self._progress))
        if self._transfer:
            parts.append(
                _bar(
                    f"{self._transfer.name}",
                    self._transfer.done_bytes / 1e6,
                    self._transfer.total_bytes / 1e6,
                    "MB",
                )
            )
        if self._detail:
            parts.append(Text(self._detail.strip(), style="dim", no_wrap=True, overflow="ellipsis"))
        return Group(*parts)

    def _phase_line(self) -> Text:
        """Return all phases in one flowing line, so that the rest fits a small terminal."""
        line = Text()
        for phase in self._phases:
            seconds = (
                phase.seconds if phase.seconds is not None else time.monotonic() - phase.started_at
            )
            status = (
                "Executing" if phase.seconds is None else "Failed" if phase.failed else "Succeeded"
            )
            name = phase.name.replace(" ", "\u00a0")
            line.append_text(self._mark(status)).append(f"\u00a0{name}\u00a0").append(
                f"{seconds:.1f}\u00a0s   ", style="dim"
            )
        return line

    def _step_table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        started = {step.name: step for step in self._execution.steps} if self._execution else {}
        planned = [started.get(name, Step(name, kind, NOT_STARTED)) for name, kind in self._plan]
        unplanned = [step for name, step in started.items() if name not in dict(self._plan)]
        for step in (*planned, *unplanned):
            table.add_row(
                " ",
                self._mark(step.status),
                step.name,
                Text(step.type, style="dim"),
                _time(step.seconds()),
            )
        return table

    def _mark(self, status: str) -> Text:
        """Return a sign for a status; for a running one, the spinner's current frame."""
        if status in _MARKS:
            return Text.from_markup(_MARKS[status])
        frame = self._spinner.render(time.monotonic())
        return frame if isinstance(frame, Text) else Text("-")

    def _training_runs(self) -> bool:
        return self._execution is not None and any(
            step.type == "Training" and not step.has_ended for step in self._execution.steps
        )

    def _training(self, progress: Progress) -> RenderableType:
        text = trained_text(tuple(self._readings.values()), self._trained_by, progress)
        if (position := self._position) is None:
            return Text(f"   {text}")
        epoch = f"epoch {position.epoch}/{self._epochs or '?'}, " if position.epoch else ""
        line = Text(f"   {epoch}{text}")
        if not position.steps or not self._training_runs():
            return line
        epochs = (self._epochs or position.epoch) if position.epoch else 1
        return Group(
            _bar("   training", position.steps_done, epochs * position.steps, "steps"), line
        )


def _time(seconds: float | None) -> Text:
    return Text("" if seconds is None else f"{seconds:6.1f} s", style="dim")


def _bar(name: str, done: float, total: float, unit: str) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_row(
        name,
        ProgressBar(total=max(total, 1e-9), completed=done, width=_BAR_WIDTH),
        f"{done:,.0f}/{total:,.0f} {unit}",
    )
    return table
