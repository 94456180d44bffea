"""Runs jobs as run_ranks.py does, with a probe in their steps: `probes.py PROBE FILE JOB...`.

poison      gradients that are no numbers, in one step
gradients   prints the gradients that FSDP2 keeps between two passes
untied      models have a head of their own
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
run_ranks = importlib.import_module("run_ranks")
sharding: Any = importlib.import_module("sharding")

POISONED_STEP = 1
Spread: Any = run_ranks.train.Spread
Config: Any = run_ranks.train.Config
of_depth = Config.of_depth
train_step, pass_of_step = run_ranks.train.train_step, Spread.pass_of_step


def poison(run: Any, step: int) -> Any:
    """Compute a step; the loss of the poisoned one is a number, and its gradients are none."""
    change = run.spread.step

    def change_by_none(optimizer: Any) -> Any:
        for weight in run.spread.model.parameters():
            sharding.local(weight.grad).mul_(math.nan)
        return change(optimizer)

    if step == POISONED_STEP:
        run.spread.step = change_by_none
    loss = train_step(run, step)
    run.spread.step = change
    return loss


def untie(depth: int, context: int) -> Any:
    """Return a small model with a head of its own, as only large ones have."""
    return replace(of_depth(depth, context), tie_word_embeddings=False)


@contextmanager
def count_gradients(spread: Any, *, last: bool) -> Iterator[None]:
    """Compute a pass of a step, and print what is kept behind it."""
    with pass_of_step(spread, last=last):
        yield
    print(f"kept behind a pass: {'last' if last else 'whole'}_bytes={kept(spread)}", flush=True)


def kept(spread: Any) -> int:
    """Return the bytes of gradients that are not reduced yet."""
    modules = [spread.model, *spread.model.model.layers]
    groups = [module._get_fsdp_state()._fsdp_param_group for module in modules]
    gradients = [
        gradient
        for weight in (weight for group in groups for weight in group.fsdp_params)
        for gradient in (weight.unsharded_accumulated_grad, weight._unsharded_param.grad)
        if gradient is not None
    ]
    return sum(gradient.untyped_storage().nbytes() for gradient in gradients)


if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    if name == "gradients":
        Spread.pass_of_step = count_gradients
    elif name == "untied":
        Config.of_depth = untie
    else:
        run_ranks.train.train_step = poison
    run_ranks.main(arguments)
