"""Gives every rank the parameters and optimizer state of one rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import Any

import torch

from ..common import broadcast_object
from .collectives import broadcast_all


def broadcast_parameters(
    params: Mapping[str, Any] | Iterable[tuple[str, Any]], root_rank: int
) -> None:
    """Copy rank `root_rank`'s values into `model.state_dict()` or `model.named_parameters()`."""
    named = sorted(params.items()) if isinstance(params, Mapping) else list(params)
    if not all(isinstance(pair, tuple) for pair in named):
        raise ValueError(f"invalid params of type: {type(params)}")
    broadcast_all([tensor for _, tensor in named if isinstance(tensor, torch.Tensor)], root_rank)


def broadcast_optimizer_state(optimizer: Any, root_rank: int) -> None:
    """Give every rank the state and settings of rank `root_rank`'s optimizer.

    These are learning rate, momentum and moments. As in Horovod, a rank that has no state first
    takes a step with gradients of 0, which its optimizer counts.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("cannot broadcast torch.optim.LBFGS state")  # noqa: TRY004 - Horovod raises ValueError
    if not optimizer.state:
        parameters = (each for group in optimizer.param_groups for each in group["params"])
        for parameter in parameters:
            if parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)
        # The other ranks may have a state, and then take no step.
        with getattr(optimizer, "skip_synchronize", nullcontext)():
            optimizer.step()
    optimizer.load_state_dict(broadcast_object(optimizer.state_dict(), root_rank))
