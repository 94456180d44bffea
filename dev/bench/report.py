"""Write results as a JSON file with every run, a Markdown table and a picture."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev.bench.interleave import Figure, Result
from dev.bench.machine import describe


@dataclass(frozen=True)
class Column:
    """A column of the table: a metric, or its ratio to that of `peer`."""

    head: str
    metric: str
    peer: str | None = None
    digits: int = 0


@dataclass(frozen=True)
class Comparison:
    """One table: contenders (rows) and figures (columns) of a result."""

    name: str
    """Also the files' name."""
    title: str
    result: Result
    rows: Sequence[str]
    columns: Sequence[Column]
    warning: str = ""
    """Why the figures may not say what the title says."""

    def cell(self, row: str, column: Column) -> Figure | None:
        """Return the figure of one row, or None if this contender has no such metric."""
        if not self.result.of(row, column.metric):
            return None
        if column.peer is None:
            return self.result.figure(row, column.metric)
        return self.result.ratio(column.metric, row, column.peer)

    def table(self) -> str:
        """Return Markdown: the median and, in brackets, minimum and maximum."""
        head = ["", *(column.head for column in self.columns)]
        lines = [_line(head), _line(["---"] * len(head))]
        for row in self.rows:
            lines.append(
                _line(
                    [
                        row,
                        *(_text(self.cell(row, column), column.digits) for column in self.columns),
                    ]
                )
            )
        busy = "" if self.result.is_quiet else "Measured on a busy machine: not for publication."
        notes = "".join(f"\n\n**{note}**" for note in (self.warning, busy) if note)
        return f"### {self.title}\n\n" + "\n".join(lines) + notes

    def write(self, folder: Path, extra: Mapping[str, Any] | None = None) -> None:
        """Write NAME.json, NAME.md and NAME.png."""
        folder.mkdir(parents=True, exist_ok=True)
        content = {
            "title": self.title,
            "machine": describe(),
            "quiet": self.result.is_quiet,
            "runs_repeated": self.result.repeated,
            "rounds_not_counted": self.result.skipped,
            **(extra or {}),
            "runs": [dataclasses.asdict(sample) for sample in self.result.samples],
        }
        (folder / f"{self.name}.json").write_text(json.dumps(content, indent=1) + "\n")
        (folder / f"{self.name}.md").write_text(self.table() + "\n")
        self._plot(folder / f"{self.name}.png")

    def _plot(self, path: Path) -> None:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot as plt

        column = self.columns[0]
        figures = [(row, cell) for row in self.rows if (cell := self.cell(row, column))]
        chart, axes = plt.subplots(figsize=(8, 0.45 * len(figures) + 1.2), layout="constrained")
        values = [cell.median for _, cell in figures]
        errors = [
            [cell.median - cell.low for _, cell in figures],
            [cell.high - cell.median for _, cell in figures],
        ]
        axes.barh(
            [row for row, _ in figures],
            values,
            xerr=errors,
            color="#2f6f8f",
            ecolor="#333333",
            capsize=3,
        )
        axes.invert_yaxis()
        axes.set_xlabel(column.head)
        chart.suptitle(
            self.title, fontsize=10, wrap=True
        )  # of the figure: the bars begin far to the right of its middle
        axes.spines[["top", "right"]].set_visible(False)
        chart.savefig(path, dpi=120)
        plt.close(chart)


def _text(cell: Figure | None, digits: int) -> str:
    if cell is None:
        return "-"
    return f"{cell.median:.{digits}f} ({cell.low:.{digits}f}-{cell.high:.{digits}f})"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
