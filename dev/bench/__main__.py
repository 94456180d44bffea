"""Measure Shoal and its peers: `python -m dev.bench quick|full [--only PART] [--out FOLDER]`.

training   images/s of the training loops on MNIST, beside PyTorch's and TensorFlow's
accuracy   the shipped script's time to 99 %
local      shoal-local's start, and the way to a script's first line
overhead   one execution of dev's pipeline, by what its steps do

Exit codes: 0 measured; 1 a contender failed; 2 wrong usage.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from dev.bench.measurements import RANKS, images_per_s, local, pipeline, time_to_accuracy
from dev.bench.processes import RunFailedError, end_on_sigterm
from dev.bench.rounds import REPOSITORY, Comparison, cores

Parts = dict[str, Callable[[], Comparison]]
QUICK: Parts = {
    "training": lambda: images_per_s(rounds=1, steps=60, tested=500),
    "accuracy": lambda: time_to_accuracy(seeds=1),
    "local": lambda: local(rounds=1),
    "overhead": lambda: pipeline(rounds=1, epochs=1),
}
FULL: Parts = {
    # Almost one epoch on two ranks, so that the accuracies say something.
    "training": lambda: images_per_s(rounds=5, steps=440, tested=10_000),
    "accuracy": lambda: time_to_accuracy(seeds=10),
    "local": lambda: local(rounds=5),
    "overhead": lambda: pipeline(rounds=3, epochs=None),
}


def main(arguments: Sequence[str]) -> int:
    """Run the parts that the arguments name; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m dev.bench", description=__doc__)
    parser.add_argument("plan", choices=("quick", "full"))
    parser.add_argument("--only", choices=tuple(QUICK), action="append", help="default: all parts")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "bench-out")
    options = parser.parse_args(arguments)
    if len(cores()) < RANKS:
        print(f"bench: needs {RANKS} cores, has {len(cores())}", file=sys.stderr)
        return 2
    end_on_sigterm()
    started_at = time.monotonic()
    try:
        for name, measure in (QUICK if options.plan == "quick" else FULL).items():
            if not options.only or name in options.only:
                comparison = measure()
                comparison.write(options.out)
                print(f"\n{comparison.table()}\n", flush=True)
    except RunFailedError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print(f"reports are in {options.out}, after {time.monotonic() - started_at:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
