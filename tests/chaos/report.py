"""The results of a run of all cases in; the section of docs/reliability.md that tells of it out."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.rig import Result

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- written by `make chaos` from here -->", "<!-- to here -->"
_SLOWEST = 8


@dataclass(frozen=True)
class Row:
    """A result, and where it belongs in the table."""

    step: str
    circumstance: str
    result: Result


def write(rows: Sequence[Row], seconds: float, at_once: int) -> None:
    """Put the section into the page; ValueError where the page has no place for it."""
    text = PAGE.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} has no place for the report, between {BEGIN!r} and {END!r}")
    PAGE.write_text(f"{before}{begin}\n\n{section(rows, seconds, at_once)}\n{end}{after}")


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
        command, cwd=PAGE.parent, capture_output=True, text=True, check=True
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
    lines = [
        "| slowest to clean | execution | s from its end until nothing was left |",
        "| --- | --- | --- |",
    ]
    return lines + [f"| `{each.name}` | {each.status} | {each.cleaned_s:.1f} |" for each in slowest]


def _lost(rows: Sequence[Row]) -> list[str]:
    failed = [row.result for row in rows if not row.result.survived]
    if not failed:
        return ["Every case survived."]
    return [
        "Did not survive:",
        "",
        *(f"- `{each.name}`: {'; '.join([*each.problems, *each.left])[:300]}" for each in failed),
    ]
