"""`python -m tests.chaos [CASE ...]`: runs all cases, or those whose names are given (shell
patterns), and says what they came to.
"""

from __future__ import annotations

import argparse
import fnmatch
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.chaos import crash, report, rig
from tests.chaos.cases import Case, cases
from tests.chaos.crash import Crash, crashes
from tests.chaos.deployment import Deployment, checkout_with_twins, synthesise
from tests.chaos.pairs import Pair, pairs
from tests.chaos.pairs import run as run_pairs
from tests.chaos.report import Row
from tests.chaos.rig import Result
from tests.chaos.world import World

AT_ONCE = 4
_MACHINE = "the machine afterwards"


def main(arguments: Sequence[str]) -> int:
    """0 when every case survived and nothing was left behind; 2 for a case that there is not."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("case", nargs="*", help="name of a case, or a shell pattern of names")
    parser.add_argument("--list", action="store_true", help="only list the cases, with their seeds")
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="write what came out into a file; only for all cases",
    )
    parser.add_argument(
        "--at-once", type=int, default=AT_ONCE, help="executions that run at the same time"
    )
    options = parser.parse_args(arguments)
    every: list[Case | Pair | Crash] = [*cases(), *pairs(), *crashes()]
    chosen = [each for each in every if _is_chosen(each.name, options.case)]
    if not chosen or (options.report and options.case):
        print(
            (
                "there is no such case; --list names them"
                if not chosen
                else "a report is of all cases"
            ),
            file=sys.stderr,
        )
        return 2
    if options.list:
        print("\n".join(f"{each.seed:10d} {each.name}" for each in chosen))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is stopped
    begun = time.monotonic()
    rows = attack(chosen, options.at_once)
    if options.report:
        report.write(options.report, rows, time.monotonic() - begun, options.at_once)
    return summarise([row.result for row in rows])


def _is_chosen(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def attack(chosen: Sequence[Case | Pair | Crash], at_once: int) -> list[Row]:
    """Every chosen case, and what the machine shows afterwards where it shows anything."""
    own = [each for each in chosen if isinstance(each, Case)]
    of_two = [each for each in chosen if isinstance(each, Pair)]
    killed = [each for each in chosen if isinstance(each, Crash)]
    with tempfile.TemporaryDirectory(prefix="shoal-chaos-") as scratch:
        deployment = synthesise(Path(scratch, "cdk.out"))
        rows = _in_a_world(deployment, Path(scratch, "world"), own, at_once) if own else []
        rows += _with_pairs(Path(scratch, "pairs"), of_two) if of_two else []
        return rows + (
            _with_crashes(deployment, Path(scratch, "crashes"), killed) if killed else []
        )


def _in_a_world(
    deployment: Deployment, folder: Path, chosen: Sequence[Case], at_once: int
) -> list[Row]:
    world, after = World(deployment, folder), Result(_MACHINE)
    by_name = {case.name: case for case in chosen}
    try:
        world.start()
        world.deploy()
        results = rig.run(world, chosen, at_once, show)
        if letters := world.dead_letters():
            after.problems.append(f"{letters} dead letters")
    finally:
        after.left = world.stop()
    placed = [
        (by_name[each.name].trouble.step, by_name[each.name].circumstance.name)
        for each in results
        if each.name in by_name
    ]
    rows = [
        Row(step, circumstance, result)
        for (step, circumstance), result in zip(placed, results, strict=False)
    ]
    return rows + _afterwards(
        [each for each in [*results[len(placed) :], after] if not each.survived]
    )


def _with_pairs(folder: Path, chosen: Sequence[Pair]) -> list[Row]:
    (folder / "checkout").mkdir(parents=True)
    root = checkout_with_twins(folder / "checkout")
    world, after = World(synthesise(folder / "cdk.out", root), folder / "world"), Result(_MACHINE)
    try:
        world.start()
        world.deploy()
        results = run_pairs(world, chosen, show)
        if letters := sum(each.dead_letters() for each in world.each):
            after.problems.append(f"{letters} dead letters")
    finally:
        after.left = world.stop()
    steps = {each.name: each.case.trouble.step for each in chosen}
    rows = [Row(steps[each.name], "two workloads", each) for each in results if each.name in steps]
    others = [each for each in results if each.name not in steps]
    return rows + _afterwards([each for each in (*others, after) if not each.survived])


def _with_crashes(deployment: Deployment, folder: Path, chosen: Sequence[Crash]) -> list[Row]:
    world, after = World(deployment, folder), Result(_MACHINE)
    try:
        world.start()
        results = crash.run(world, chosen, show)
    finally:
        after.left = world.stop()
    rows = [
        Row(each.step, "emulator killed", result)
        for each, result in zip(chosen, results, strict=True)
    ]
    return rows + _afterwards([] if after.survived else [after])


def _afterwards(results: Sequence[Result]) -> list[Row]:
    for result in results:
        show(result)
    return [Row(result.name, "afterwards", result) for result in results]


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
