"""The graphs of a CloudWatch dashboard go in, a PNG file with all of them comes out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from shoal.verbs.dashboard import Graph

_COLUMNS = 3
_DPI = 110
_MOST_LABELS = 6
_LONG_LABEL = 36
_DAY_S = 86_400


def draw(graphs: Sequence[Graph], title: str, path: Path) -> None:
    """Three graphs in a row, as the dashboard has them; a graph without points says so."""
    rows = -(-len(graphs) // _COLUMNS)
    figure = Figure(figsize=(6 * _COLUMNS, 3.2 * rows + 0.6), layout="constrained")
    figure.suptitle(title)
    limits = _limits(graphs)
    for axis, graph in zip(
        figure.subplots(rows, _COLUMNS, squeeze=False).flat, graphs, strict=False
    ):
        axis.set_title(graph.title, fontsize=11)
        if graph.lines:
            _draw_lines(axis, graph, limits)
        else:
            axis.text(
                0.5,
                0.5,
                "nothing was measured",
                transform=axis.transAxes,
                ha="center",
                va="center",
                color="#57606a",
            )
            axis.set(xticks=[], yticks=[])
    FigureCanvasAgg(figure)
    figure.savefig(path, dpi=_DPI)


def _draw_lines(axis: Any, graph: Graph, limits: tuple[datetime, datetime]) -> None:
    for line in graph.lines:
        axis.plot(
            [at for at, _ in line.points],
            [value for _, value in line.points],
            "o-",
            ms=4,
            lw=1.2,
            label=line.label,
        )
    locator = AutoDateLocator(minticks=2, maxticks=6)  # type: ignore[no-untyped-call]
    axis.xaxis.set_major_locator(locator)
    axis.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    highest = max(value for line in graph.lines for _, value in line.points)
    axis.set(
        xlim=limits if graph.period_s < _DAY_S else _days(graph), ylim=(0, 1.45 * highest or 1)
    )
    axis.grid(alpha=0.3)
    if len(graph.lines) > 1:
        columns = 2 if max(len(line.label) for line in graph.lines) <= _LONG_LABEL else 1
        axis.legend(
            fontsize=7, loc="upper left", ncols=columns, handles=axis.get_lines()[:_MOST_LABELS]
        ).set_in_layout(False)


def _limits(graphs: Sequence[Graph]) -> tuple[datetime, datetime]:
    """From the first to the last point of all graphs but the daily ones, so that they can be
    compared; a little more on both sides.
    """
    instants = [
        at
        for graph in graphs
        if graph.period_s < _DAY_S
        for line in graph.lines
        for at, _ in line.points
    ] or [datetime.now(UTC)]
    margin = max((max(instants) - min(instants)) / 20, timedelta(minutes=1))
    return min(instants) - margin, max(instants) + margin


def _days(graph: Graph) -> tuple[datetime, datetime]:
    """Half a day more on both sides of what is drawn: of one point there is no range."""
    instants = [at for line in graph.lines for at, _ in line.points]
    return min(instants) - timedelta(hours=12), max(instants) + timedelta(hours=12)
