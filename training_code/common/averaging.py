"""Averages gradients over the ranks, by DistributedDataParallel or at the end of backward()."""

from __future__ import annotations

from collections.abc import Callable

import torch

from common.ranks import Ranks


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
    """Average the gradients over the ranks at the end of each backward(), in one message, of which
    they become views.

    A gradient fills one piece of memory, in the order of its parameter's strides or row by row, the
    same on every rank ("Gradient Layout Contract" in
    torch/csrc/autograd/functions/accumulate_grad.h): it is sent as it lies there.
    """
    parameters = list(network.parameters())
    missing = len(parameters)

    def ready(_parameter: torch.Tensor) -> None:
        nonlocal missing
        missing -= 1
        if missing:
            return
        missing = len(parameters)
        gradients = [each.grad for each in parameters if each.grad is not None]
        sizes = [each.numel() for each in gradients]
        pairs = zip(gradients, sizes, strict=True)
        message = torch.cat([each.as_strided((size,), (1,)) for each, size in pairs])
        all_reduce(message)
        means = message.div_(world_size).split(sizes)
        for parameter, gradient, mean in zip(parameters, gradients, means, strict=True):
            parameter.grad = mean.as_strided(gradient.shape, gradient.stride())

    for parameter in parameters:
        parameter.register_post_accumulate_grad_hook(ready)
