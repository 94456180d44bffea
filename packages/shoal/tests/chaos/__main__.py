"""`python -m tests.chaos [CASE ...]`: runs all cases, or those whose names are given (shell
patterns), and says what they came to, in a report in Markdown, too.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos import crash, rig
from tests.chaos.cases import Case, cases
from tests.chaos.crash import Crash, crashes
from tests.chaos.deployment import checkout_with_twins, synthesise
from tests.chaos.pairs import Pair, pairs
from tests.chaos.pairs import run as run_pairs
from tests.chaos.rig import Result
from tests.chaos.world import World

ROOT = Path(__file__).resolve().parents[4]
_SLOWEST = 8


@dataclass(frozen=True)
class Row:
    """A result, and where it belongs in the table."""

    step: str
    circumstance: str
    result: Result


def write(file: Path, rows: Sequence[Row], seconds: float, at_once: int) -> None:
    """Write the report as Markdown: the figures, a table of survivors by step and circumstance, the
    slowest to clean, what did not survive.
    """
    survived = sum(row.result.survived for row in rows)
    left = sum(len(row.result.left) for row in rows)
    told = f"{len(rows)} cases, {survived} survived, left behind {left}"
    load = f"the machine's load over the last 15 minutes was {os.getloadavg()[2]:.1f}"
    machine = f"{at_once} executions at once on {os.cpu_count()} cores; {load}"
    first = f"**{told}, in {seconds / 60:.0f} minutes** ({machine}). Commit {_commit()}."
    lines = [first, "", *_table(rows), "", *_slowest(rows), "", *_lost(rows), ""]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines), encoding="utf-8")


def _commit() -> str:
    """Return the checkout's commit and its day, so that the page tells how old its figures are."""
    command = ["git", "log", "-1", "--format=%h of %cs"]
    return subprocess.check_output(command, cwd=ROOT, text=True).strip()


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


AT_ONCE = 4
Attack = Case | Pair | Crash


def main(arguments: Sequence[str]) -> int:
    """0 when every case survived and nothing was left behind; 2 for a case that there is not."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("case", nargs="*", help="name of a case, or a shell pattern of names")
    parser.add_argument("--list", action="store_true", help="only list the cases, with their seeds")
    told = "write what came out into a file; only for all cases"
    parser.add_argument("--report", type=Path, metavar="FILE", help=told)
    told = "executions that run at the same time"
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help=told)
    options = parser.parse_args(arguments)
    every: list[Attack] = [*cases(), *pairs(), *crashes()]
    chosen = [each for each in every if _is_chosen(each.name, options.case)]
    if not chosen or (options.report and options.case):
        why = "a report is of all cases" if chosen else "there is no such case; --list names them"
        print(why, file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(f"{each.seed:10d} {each.name}" for each in chosen))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is stopped
    begun = time.monotonic()
    rows = attack(chosen, options.at_once)
    if options.report:
        write(options.report, rows, time.monotonic() - begun, options.at_once)
    return summarise([row.result for row in rows])


def _is_chosen(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def attack(chosen: Sequence[Attack], at_once: int) -> list[Row]:
    """Every chosen case, and what the machine shows afterwards where it shows anything."""
    own = [each for each in chosen if isinstance(each, Case)]
    of_two = [each for each in chosen if isinstance(each, Pair)]
    killed = [each for each in chosen if isinstance(each, Crash)]
    results: list[Result] = []
    left: list[str] = []
    with tempfile.TemporaryDirectory(prefix="shoal-chaos-") as scratch:
        folder = Path(scratch)
        deployment = synthesise(folder / "cdk.out")
        if own:
            with World.running(deployment, folder / "world", left) as world:
                world.deploy()
                results += rig.run(world, own, at_once, show)
                results += _dead_letters(world)
        if of_two:
            twins = synthesise(folder / "pairs.out", checkout_with_twins(folder / "checkout"))
            with World.running(twins, folder / "pairs", left) as world:
                world.deploy()
                results += run_pairs(world, of_two, show)
                results += _dead_letters(world)
        if killed:
            with World.running(deployment, folder / "crashes", left) as world:
                results += crash.run(world, killed, show)
    results += [Result("the machine afterwards", left=left)] if left else []
    places = {each.name: each.place for each in chosen}
    for result in results:
        if result.name not in places:
            show(result)
    return [Row(*places.get(each.name, (each.name, "afterwards")), each) for each in results]


def _dead_letters(world: World) -> list[Result]:
    letters = sum(each.dead_letters() for each in world.each)
    return [Result("the queues", problems=[f"{letters} dead letters"])] if letters else []


def show(result: Result) -> None:
    """One line a case; for one that did not survive, why, and how to run it again."""
    word = "survived" if result.survived else "FAILED  "
    print(
        f"{word} {result.name}: {result.status} after {result.seconds:.1f} s, clean"
        f" {result.cleaned_s:.1f} s later",
        flush=True,
    )
    for problem in [*result.problems, *(f"left behind: {each}" for each in result.left)]:
        print(f"         {problem}", flush=True)
    if not result.survived and " " not in result.name:  # what is found afterwards is no case
        print(f"         again: make chaos CASE={result.name}", flush=True)


def summarise(results: Sequence[Result]) -> int:
    """The last line, and the exit code."""
    survived = sum(result.survived for result in results)
    left = sum(len(result.left) for result in results)
    print(f"chaos: {len(results)} cases, {survived} survived, left behind {left}", flush=True)
    return 0 if survived == len(results) and not left else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
