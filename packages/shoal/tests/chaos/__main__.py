"""`python -m tests.chaos [CASE ...]`: runs all cases, or those whose names are given (shell
patterns), and says what they came to.
"""

import argparse
import fnmatch
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.chaos import crash, rig
from tests.chaos.cases import Case, cases
from tests.chaos.crash import Crash, crashes
from tests.chaos.deployment import checkout_with_twins, synthesise
from tests.chaos.pairs import Pair, pairs
from tests.chaos.pairs import run as run_pairs
from tests.chaos.rig import Result
from tests.chaos.world import World

AT_ONCE = 4
Attack = Case | Pair | Crash


def main(arguments: Sequence[str]) -> int:
    """0 when every case survived and nothing was left behind; 2 for a case that there is not."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("case", nargs="*", help="name of a case, or a shell pattern of names")
    parser.add_argument("--list", action="store_true", help="only list the cases, with their seeds")
    told = "executions that run at the same time"
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help=told)
    options = parser.parse_args(arguments)
    every: list[Attack] = [*cases(), *pairs(), *crashes()]
    chosen = [each for each in every if _is_chosen(each.name, options.case)]
    if not chosen:
        print("there is no such case; --list names them", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(f"{each.seed:10d} {each.name}" for each in chosen))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is stopped
    return summarise(attack(chosen, options.at_once))


def _is_chosen(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def attack(chosen: Sequence[Attack], at_once: int) -> list[Result]:
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
    names = {each.name for each in chosen}
    for result in results:
        if result.name not in names:
            show(result)
    return results


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
