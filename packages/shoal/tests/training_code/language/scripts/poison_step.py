"""Runs jobs as run_ranks.py does, with gradients that are no numbers in one step of each."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
run_ranks = importlib.import_module("run_ranks")

POISONED_STEP = 1
train_step = run_ranks.train.train_step


def poison(run: Any, step: int) -> Any:
    """Compute a step; the loss of the poisoned one is a number, and its gradients are none."""
    if step != POISONED_STEP:
        return train_step(run, step)
    backward = run.spread.backward
    run.spread.backward = lambda loss: backward(loss * math.nan)
    loss = train_step(run, step)
    del run.spread.backward
    return loss


if __name__ == "__main__":
    run_ranks.train.train_step = poison
    run_ranks.main(sys.argv[1:])
