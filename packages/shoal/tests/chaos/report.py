"""The report of a run of all cases, as Markdown."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.rig import Result

ROOT = Path(__file__).resolve().parents[4]
_SLOWEST = 8


@dataclass(frozen=True)
class Row:
    """A result, and where it belongs in the table."""

    step: str
    circumstance: str
    result: Result


def write(file: Path, rows: Sequence[Row], seconds: float, at_once: int) -> None:
    """Write the report into a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{section(rows, seconds, at_once)}\n", encoding="utf-8")


def section(rows: Sequence[Row], seconds: float, at_once: int) -> str:
    """Markdown: the figures, a table of survivors by step and circumstance, the slowest to clean,
    what did not survive.
    """
    survived = sum(row.result.survived for row in rows)
    left = sum(len(row.result.left) for row in rows)
    told = (
        f"{len(rows)} cases, {survived} survived, left behind {left}, in {seconds / 60:.0f} minutes"
    )
    load = f"the machine's load over the last 15 minutes was {os.getloadavg()[2]:.1f}"
    machine = f"{at_once} executions at once on {os.cpu_count()} cores; {load}"
    first = f"**{told}** ({machine}). Commit {_commit()}."
    return "\n".join([first, "", *_table(rows), "", *_slowest(rows), "", *_lost(rows)])


def _commit() -> str:
    """Return the checkout's commit and its day, so that the page tells how old its figures are."""
    command = ["git", "log", "-1", "--format=%h of %cs"]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def _table(rows: Sequence[Row]) -> list[str]:
    circumstances = list(dict.fromkeys(row.circumstance for row in rows))
    lines = [
        "| survived of cases | " + " | ".join(circumstances) + " |",
        "| --- |" + " --- |" * len(circumstances),
    ]
    for step in dict.fromkeys(row.step for row in rows):
        cells = [
            _cell([row for row in rows if (row.step, row.circumstance) == (step, each)])
            for each in circumstances
        ]
        lines.append(f"| {step} | " + " | ".join(cells) + " |")
    return lines


def _cell(rows: Sequence[Row]) -> str:
    return f"{sum(row.result.survived for row in rows)}/{len(rows)}" if rows else ""


def _slowest(rows: Sequence[Row]) -> list[str]:
    slowest = sorted((row.result for row in rows), key=lambda result: -result.cleaned_s)[:_SLOWEST]
    return [
        "| slowest to clean | execution | s from its end until nothing was left |",
        "| --- | --- | --- |",
        *(f"| `{each.name}` | {each.status} | {each.cleaned_s:.1f} |" for each in slowest),
    ]


def _lost(rows: Sequence[Row]) -> list[str]:
    failed = [row.result for row in rows if not row.result.survived]
    lines = [f"- `{each.name}`: {'; '.join([*each.problems, *each.left])[:300]}" for each in failed]
    return ["Did not survive:", "", *lines] if failed else ["Every case survived."]
