"""Averages gradients over ranks that all have the same, in one process.

`python average_gradients.py` prints one line of JSON: for each number of ranks, the largest
difference to one rank alone after one and after two passes. Each backward() must leave none.
"""

from __future__ import annotations

import json

import torch
from common.averaging import average_gradients


def gradients(ranks: int, passes: int) -> list[torch.Tensor]:
    """Return the gradients of a network.

    backward() runs so many times without zero_grad().
    """
    torch.manual_seed(1)
    network = torch.nn.Sequential(
        torch.nn.Linear(300, 400), torch.nn.ReLU(), torch.nn.Linear(400, 3)
    )
    if ranks > 1:
        average_gradients(network, lambda tensor: tensor.mul_(ranks), ranks)
    for _ in range(passes):
        network(torch.randn(5, 300)).square().sum().backward()
    return [parameter.grad for parameter in network.parameters() if parameter.grad is not None]


def difference(ranks: int, passes: int) -> float:
    """Return the largest relative difference to a rank alone."""
    pairs = zip(gradients(1, passes), gradients(ranks, passes), strict=True)
    return max(float((ours - alone).abs().max() / alone.abs().max()) for alone, ours in pairs)


print(json.dumps({ranks: [difference(ranks, passes) for passes in (1, 2)] for ranks in (2, 3, 7)}))
