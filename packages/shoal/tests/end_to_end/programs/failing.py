"""Ranks that meet; then the last one ends as it is told, while the others wait.

`--meet`: by a backend of torch.distributed, by MPI, or nobody (hosts without ranks).
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import time
from collections.abc import Callable


def join(how: str) -> tuple[bool, Callable[[], object]]:
    """Meet the others; return whether this is the last rank, and how to wait."""
    if how == "nobody":
        return os.environ["SM_CURRENT_HOST"] != "algo-1", sleep
    if how == "MPI":
        world = importlib.import_module("mpi4py.MPI").COMM_WORLD
        # In MPI itself a rank that loses its peer may abort before the launcher sees who died, as
        # in a barrier that the last one has left. So the last one hears from all before it ends.
        last = world.size - 1
        world.gather(None, root=last)
        return world.rank == last, sleep
    distributed = importlib.import_module("torch.distributed")
    if how == "smddp":
        importlib.import_module("smdistributed.dataparallel.torch.torch_smddp")
    distributed.init_process_group(backend=how)
    distributed.barrier()
    return distributed.get_rank() == distributed.get_world_size() - 1, distributed.barrier


def sleep() -> None:
    time.sleep(600)


parser = argparse.ArgumentParser()
parser.add_argument("--meet", required=True)
parser.add_argument("--end", choices=("raises", "is-killed", "stands-still"), required=True)
options, _ = parser.parse_known_args()
is_last, wait = join(options.meet)
if options.end == "stands-still":
    for step in range(4):
        time.sleep(0.1)
        print(f"step={step}", flush=True)
if is_last and options.end == "stands-still":
    sleep()
if is_last and options.end == "is-killed":
    os.kill(os.getpid(), signal.SIGKILL)
if is_last:
    raise ValueError("the loss is nan")
wait()
