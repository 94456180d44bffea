"""Averages gradients over the ranks, by DistributedDataParallel or at the end of backward()."""

from __future__ import annotations

from collections.abc import Callable

import torch

from common.ranks import Ranks

LARGE_BYTES = 1 << 18
"""A gradient of so many is a message of its own: copying it into one costs more than the message's
fixed part.
"""


def averaged(network: torch.nn.Module, ranks: Ranks, averaging: str) -> torch.nn.Module:
    """Return the network with its gradients averaged over the ranks in backward().

    `averaging` is ddp, flat or auto, which is flat on CPUs: DistributedDataParallel sends buckets
    during the pass, which gains nothing where one core both computes and carries the messages, and
    it imports torch's compiler. Horovod's optimizer averages them itself.
    """
    if ranks.backend == "horovod":
        return network
    if averaging == "ddp" or (averaging == "auto" and ranks.device.type == "cuda"):
        devices = [ranks.device] if ranks.device.type == "cuda" else None
        return torch.nn.parallel.DistributedDataParallel(
            network, device_ids=devices, gradient_as_bucket_view=True
        )
    if ranks.world_size > 1:
        average_gradients(network, ranks.all_reduce, ranks.world_size)
    return network


def average_gradients(
    network: torch.nn.Module, all_reduce: Callable[[torch.Tensor], None], world_size: int
) -> None:
    """Average the gradients over the ranks at the end of each backward()."""
    parameters = list(network.parameters())
    missing = len(parameters)

    def ready(_parameter: torch.Tensor) -> None:
        nonlocal missing
        missing -= 1
        if not missing:
            missing = len(parameters)
            _average(parameters, all_reduce, world_size)

    for parameter in parameters:
        parameter.register_post_accumulate_grad_hook(ready)


def _average(
    parameters: list[torch.Tensor], all_reduce: Callable[[torch.Tensor], None], world_size: int
) -> None:
    """Average each large gradient as a message of its own, and the small ones as one, of which they
    become views.

    A gradient fills one piece of memory, in the order of its parameter's strides or row by row, the
    same on every rank ("Gradient Layout Contract" in
    torch/csrc/autograd/functions/accumulate_grad.h): it is sent as it lies there.
    """
    small = []
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.nbytes >= LARGE_BYTES:
            all_reduce(_flat(parameter.grad))
            parameter.grad /= world_size
        elif parameter.grad is not None:
            small.append(parameter)
    if not small:
        return
    gradients = [parameter.grad for parameter in small]
    message = torch.cat([_flat(gradient) for gradient in gradients])
    all_reduce(message)
    message /= world_size
    means = message.split([gradient.numel() for gradient in gradients])
    for parameter, gradient, mean in zip(small, gradients, means, strict=True):
        parameter.grad = mean.as_strided(gradient.shape, gradient.stride())


def _flat(gradient: torch.Tensor) -> torch.Tensor:
    return gradient.as_strided((gradient.numel(),), (1,))
