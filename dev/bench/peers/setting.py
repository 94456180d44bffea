"""What all peers share, so that only their training loop differs: command line, core, timing and
report.

Needs no framework.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Setting:
    """One run: `steps` timed steps of `batch` images per rank after `warm_up` untimed ones, then a
    test on `tested` images.
    """

    data: Path
    batch: int
    warm_up: int
    steps: int
    tested: int
    seed: int


def parse() -> Setting:
    """Parse the command line, which is the same for every peer."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--warm-up", type=int, default=10)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--tested", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    return Setting(**vars(parser.parse_args()))


def pin() -> None:
    """Keep this rank on one core of those that the bench has, the same core under every
    launcher.
    """
    local_rank = os.environ.get("LOCAL_RANK") or os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK")
    cores = [int(core) for core in os.environ["BENCH_CORES"].split(",")]
    os.sched_setaffinity(0, {cores[int(local_rank)]} if local_rank is not None else set(cores))


class Clock:
    """Times the steps after the warm-up."""

    def __init__(self, setting: Setting, ranks: int) -> None:
        self._setting = setting
        self._ranks = ranks
        self._began_at = 0.0
        self._timed = 0
        self.seconds = 0.0

    def steps(self) -> Iterator[int]:
        """Yield the numbers of all steps; a step ends when the next one is requested."""
        for step in itertools.count():
            if step == self._setting.warm_up:
                self._began_at = time.perf_counter()
            timed = step - self._setting.warm_up
            if timed >= self._setting.steps:
                break
            yield step
        self.seconds = time.perf_counter() - self._began_at
        self._timed = timed

    @property
    def images_per_s(self) -> float:
        """Return the images per second of all ranks together."""
        return self._timed * self._setting.batch * self._ranks / self.seconds


def report(**figures: float) -> None:
    """Print the line that the bench reads."""
    print(json.dumps(figures), flush=True)


def read(folder: Path, prefix: str) -> tuple[bytes, bytes, int]:
    """Return pixels, labels and number of the images of `train` or `t10k`."""
    images = (folder / f"{prefix}-images-idx3-ubyte").read_bytes()
    labels = (folder / f"{prefix}-labels-idx1-ubyte").read_bytes()
    (count,) = struct.unpack(">I", images[4:8])
    return images[16:], labels[8:], count
