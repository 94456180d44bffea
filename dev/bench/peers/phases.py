"""How well a job scales, measured within it: its ranks train together, side by side without
communicating, and alone.

Separate runs would compare spells of the machine rather than kinds of work. Short phases in turn
meet the same spells.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

TOGETHER, APART = "together", "apart"
NAP_S = 0.001
"""Sleep between two polls of a rank whose turn it is not, so that the one that trains has the host
to itself.
"""


@dataclass(frozen=True)
class Job:
    """What the phases need of a job. Both functions are collectives, and `meet` lets a waiting rank
    sleep.
    """

    rank: int
    world_size: int
    meet: Callable[[], None]
    gather: Callable[[Any], list[Any]]
    clock: Callable[[], float] = time.perf_counter


def under_mpirun(rank: int, world_size: int) -> Job:
    """Return the job of ranks that mpirun started."""
    from mpi4py import MPI

    communicator = MPI.COMM_WORLD.Dup()

    def meet() -> None:
        arrived = communicator.Ibarrier()
        while not arrived.Test():
            time.sleep(NAP_S)
        communicator.Barrier()  # a rank that woke first waits for the others: all begin at once

    return Job(rank, world_size, meet, communicator.allgather)


def scaling(job: Job, step: Callable[[bool], None], cycles: int, steps: int) -> dict[str, float]:
    """Return medians over `cycles` cycles, each with every kind of phase, of `steps` steps; the
    same on every rank.

    `step` does one step; its argument says whether the ranks average its gradients. Efficiency is
    images/s of all ranks over the sum of what each of them reaches alone: `efficiency` of ranks
    that communicate, `efficiency_apart` of ranks that do not; `over_apart` is the first
    divided by the second.
    """
    kinds: list[str | int] = [TOGETHER, APART, *range(job.world_size)]
    own: dict[str | int, list[float]] = {kind: [] for kind in kinds}
    # 0, 1, n-1, 2, n-2 ...: within n cycles of an even number of kinds each follows each other one
    # once (Williams, 1949).
    offsets = [(number + 1) // 2 if number % 2 else -number // 2 for number in range(len(kinds))]
    for cycle in range(cycles):
        for kind in (kinds[(cycle + offset) % len(kinds)] for offset in offsets):
            job.meet()
            started_at = job.clock()
            if kind in {TOGETHER, APART, job.rank}:
                for _ in range(steps):
                    step(kind == TOGETHER)
            own[kind].append((job.clock() - started_at) / steps)
    ranks: list[dict[str | int, list[float]]] = job.gather(own)
    slowest = {
        kind: [max(times) for times in zip(*(rank[kind] for rank in ranks), strict=True)]
        for kind in (TOGETHER, APART)
    }
    alone = [
        [ranks[rank][rank][cycle] for rank in range(job.world_size)] for cycle in range(cycles)
    ]

    def efficiency(kind: str) -> float:
        ratios = (
            job.world_size / all_s / sum(1 / one_s for one_s in each)
            for all_s, each in zip(slowest[kind], alone, strict=True)
        )
        return float(statistics.median(ratios))

    over_apart = (apart / together for together, apart in zip(*slowest.values(), strict=True))
    return {
        "efficiency": efficiency(TOGETHER),
        "efficiency_apart": efficiency(APART),
        "over_apart": statistics.median(over_apart),
        "together_ms": 1000 * statistics.median(slowest[TOGETHER]),
        "apart_ms": 1000 * statistics.median(slowest[APART]),
        "alone_ms": 1000 * statistics.median(statistics.mean(each) for each in alone),
    }
