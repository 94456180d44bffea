"""Milliseconds per AllReduce of each size (megabytes, on the command line), and per copy of as many
bytes.

Rank 0 reports medians.
"""

from __future__ import annotations

import functools
import statistics
import sys
import time
from collections.abc import Callable

from setting import pin, report

pin()

import smdistributed.dataparallel.torch.torch_smddp  # noqa: F401 - registers the backend
import torch
import torch.distributed as dist

REPEATS = 25


def main() -> None:
    """Run one rank."""
    torch.set_num_threads(1)
    dist.init_process_group("smddp")
    figures = {}
    for megabytes in map(int, sys.argv[1:]):
        tensor, other = torch.zeros(megabytes * 250_000), torch.zeros(megabytes * 250_000)
        figures[f"all_reduce_{megabytes}_mb_ms"] = median_ms(
            functools.partial(dist.all_reduce, tensor)
        )
        figures[f"memcpy_{megabytes}_mb_ms"] = median_ms(functools.partial(other.copy_, tensor))
    if dist.get_rank() == 0:
        report(**figures)
    dist.destroy_process_group()


def median_ms(work: Callable[[], object]) -> float:
    """Return the median time, after three uncounted calls."""
    times = []
    for _ in range(3 + REPEATS):
        started_at = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - started_at))
    return statistics.median(times[3:])


if __name__ == "__main__":
    main()
