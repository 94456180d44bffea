"""The output of `shoal demo --gitops`: summary.json, transcript.txt, logs, and the lines at its
end.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from shoal.demo.pipeline.report import message_of, status_of
from shoal.verbs.flow import Outcome

SUMMARY, TRANSCRIPT, LOGS = "summary.json", "transcript.txt", "logs"
_SHORT = 12


@dataclass(frozen=True)
class Canary:
    """Which release answered while a new one was rolled out."""

    old_model: str
    new_model: str
    old_answers: int
    new_answers: int
    side_by_side: bool
    """Whether the old release answered after the new one had begun to."""


@dataclass(frozen=True)
class Rollback:
    """Which release answered while a broken one was rolled out, and why that was taken back."""

    reason: str
    serving_model: str
    """Of the release before, which answers again."""
    serving_answers: int
    broken_model: str
    broken_answers: int
    failed_requests: int


@dataclass
class Facts:
    """What the phases have found out so far; summary.json has the same names."""

    accounts: dict[str, str] = field(default_factory=dict)
    enforces_iam: bool = False
    """Whether shoal-local applied the policies of roles, by its own account."""
    commits: list[dict[str, str]] = field(default_factory=list)
    promoted: list[dict[str, str]] = field(default_factory=list)
    """One entry for each promotion: environment, ARN of the version, digest of its content."""
    served: list[dict[str, Any]] = field(default_factory=list)
    """One entry for each request to an endpoint: environment, digest of the model, answer."""
    canary: Canary | None = None
    rollback: Rollback | None = None
    by_hand: dict[str, str] | None = None
    """A version whose archive was changed: its ARN, and how its promotion was refused."""
    second_workload: dict[str, str] | None = None
    """The release of a second workload: its name, and the ARN of the version."""
    without_drift: list[str] = field(default_factory=list)
    left_behind: list[str] | None = None
    """Resources in all accounts; None: it was not possible to look."""
    processes_left: list[str] | None = None
    """Processes and ports of the demonstration; None: it was not possible to look."""
    files_left: list[str] | None = None


def clear(output: Path) -> None:
    """Remove an earlier report, and nothing else in the folder."""
    output.mkdir(parents=True, exist_ok=True)
    for name in (SUMMARY, TRANSCRIPT):
        (output / name).unlink(missing_ok=True)
    shutil.rmtree(output / LOGS, ignore_errors=True)
    (output / LOGS).mkdir()


def write_summary(facts: Facts, outcome: Outcome, output: Path) -> None:
    """Write summary.json.

    The status is Succeeded only if every phase and every clean-up went well.
    """
    summary = {
        "status": status_of(outcome),
        "failures": [
            {"phase": failure.phase, "message": message_of(failure)} for failure in outcome.failures
        ],
        **asdict(facts),
        "seconds": {name: round(seconds, 2) for name, seconds in outcome.seconds.items()},
        "logs": sorted(str(path.relative_to(output)) for path in (output / LOGS).iterdir()),
    }
    (output / SUMMARY).write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


def print_result(console: Console, summary: dict[str, Any], output: Path) -> None:
    """Print a summary; the last line says what ran and what was left behind."""
    table = Table("phase", "seconds", box=None)
    table.columns[-1].justify = "right"
    for name, seconds in summary["seconds"].items():
        table.add_row(name, f"{seconds:.1f}")
    console.print(table)
    if canary := summary["canary"]:
        console.print(
            f"canary          {canary['old_answers']} answers of {canary['old_model'][:_SHORT]},"
            f" {canary['new_answers']} of {canary['new_model'][:_SHORT]}, side by side:"
            f" {'yes' if canary['side_by_side'] else 'no'}"
        )
    if rollback := summary["rollback"]:
        console.print(
            f"rolled back     {rollback['failed_requests']} requests failed;"
            f" {rollback['serving_model'][:_SHORT]} answers again: {rollback['reason']}"
        )
    if by_hand := summary["by_hand"]:
        console.print(f"refused         {by_hand['refused']}")
    console.print(
        f"report          {output}/: {', '.join(sorted(path.name for path in output.iterdir()))}"
    )
    console.print(last_line(summary))


def last_line(summary: dict[str, Any]) -> str:
    """Return what ran and what was left behind; a release is counted once, by its content."""
    promoted = len({each["content_sha256"] for each in summary["promoted"]})
    served = [f"{_served_in(summary, name)} served in {name}" for name in ("staging", "prod")]
    counts = [f"{len(summary['commits'])} commits", f"{promoted} releases promoted", *served]
    counts += [
        f"{1 if summary['rollback'] else 0} rolled back",
        f"{1 if summary['by_hand'] else 0} changed by hand and refused",
    ]
    if second := summary.get("second_workload"):
        counts.append(f"1 of {second['workload']} beside them")
    outcome = f"{summary['status']}: {', '.join(counts)}, {len(summary['accounts'])} accounts"
    remains = [summary[place] for place in ("left_behind", "processes_left", "files_left")]
    if None in remains:
        return f"{outcome}; left behind: not known, nobody could look everywhere"
    names = [each for place in remains for each in place]
    return (
        f"{outcome}; left behind in accounts, processes, ports and files:"
        f" {', '.join(names) if names else 'nothing'}"
    )


def _served_in(summary: dict[str, Any], environment: str) -> int:
    return len(
        {each["content_sha256"] for each in summary["served"] if each["environment"] == environment}
    )
