"""Runs jobs as run_ranks.py does, and prints the gradients that FSDP2 keeps between two passes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
run_ranks = importlib.import_module("run_ranks")
Spread: Any = run_ranks.train.Spread
pass_of_step = Spread.pass_of_step


@contextmanager
def count(spread: Any, *, last: bool) -> Iterator[None]:
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
    Spread.pass_of_step = count
    run_ranks.main(sys.argv[1:])
