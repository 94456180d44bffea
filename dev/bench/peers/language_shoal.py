"""Shoal's script for the language model: `mpirun -np 2 smddprun python -m mpi4py language_shoal.py
ddp|fsdp` takes smddp's stand-in (MPI), `torchrun --nproc-per-node 2 language_shoal.py ddp|fsdp`
takes gloo.

Its own loop runs; only the end of each step is told to the clock. With --cycles the job measures
how well it scales (phases.py).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from language_setting import Clock, Setting, parse, train
from phases import Job, scaling
from setting import report


def main() -> None:
    """Run one rank."""
    setting = parse()
    compute, clocks = train.train_step, list[Clock]()

    def step(run: Any, number: int) -> Any:
        if not clocks:
            clocks.append(Clock(setting, run.ranks.sum))
        if setting.cycles and number == setting.warm_up:
            in_phases(run, number, compute, setting)
        loss = compute(run, number)
        clocks[0].step_ended(loss)
        return loss

    train.train_step = step
    train.main(words(setting), os.environ)


def words(setting: Setting) -> list[str]:
    """Return the script's command line."""
    options = {
        "sharding": setting.way,
        "depth": setting.depth,
        "context": setting.context,
        "batch-size": setting.batch,
        "precision": setting.precision,
        "learning-rate": setting.rate,
        "steps": setting.total,
        "train-dir": setting.data,
        "model-dir": Path.cwd() / "model",
    }
    compiled = ["--compile"] if setting.compile else []
    return [
        *(word for name, value in options.items() for word in (f"--{name}", str(value))),
        *compiled,
    ]


def in_phases(run: Any, number: int, compute: Any, setting: Setting) -> None:
    """Report how well the ranks scale, and end. They drift apart, so no loss would say anything."""
    communicates, kind = True, type(run.spread)
    average = kind.pass_of_step

    @contextmanager
    def pass_of_step(self: Any, *, last: bool) -> Iterator[None]:
        with average(self, last=last and communicates):
            yield

    def step(communicate: bool) -> None:
        nonlocal communicates
        communicates = communicate
        compute(run, number)

    kind.pass_of_step = pass_of_step
    job = Job(run.ranks.rank, run.ranks.world_size, run.ranks.barrier, run.ranks.gather)
    figures = scaling(job, step, setting.cycles, setting.steps)
    if run.ranks.is_first:
        report(**figures)
    sys.exit()


if __name__ == "__main__":
    main()
