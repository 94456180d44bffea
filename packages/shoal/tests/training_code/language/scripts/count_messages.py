"""Runs jobs as run_ranks.py does, and prints the messages that torch's profiler saw in a step.

As gloo reduces and scatters with an all-reduce, those are taken off what it reduced.
"""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
run_ranks = importlib.import_module("run_ranks")
from torch.profiler import ProfilerActivity, profile  # noqa: E402

BYTES = {"double": 8, "float": 4, "c10::BFloat16": 2}
COUNTED_STEP = 2
train_step = run_ranks.train.train_step


def count(run: Any, step: int) -> Any:
    """Compute a step, with the profiler around it where it is the one that counts."""
    if step != COUNTED_STEP:
        return train_step(run, step)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as seen:
        loss = train_step(run, step)
    gathered = size(seen, "c10d::_allgather_base_", 0)
    scattered = size(seen, "c10d::_reduce_scatter_base_", 1)
    reduced = size(seen, "gloo:all_reduce", 0) - scattered
    run.ranks.say(
        f"counted: all_gather_bytes={gathered} reduce_scatter_bytes={scattered}"
        f" all_reduce_bytes={reduced}"
    )
    return loss


def size(seen: Any, name: str, argument: int) -> int:
    """Return the bytes of an argument, over all calls of an operation."""
    return sum(
        math.prod(event.input_shapes[argument]) * BYTES[event.input_dtypes[argument]]
        for event in seen.events()
        if event.name == name
    )


if __name__ == "__main__":
    run_ranks.train.train_step = count
    run_ranks.main(sys.argv[1:])
