"""Runs a step as one graph would be, where there is no GPU: `run_as_graph.py` prints JSON.

`losses` of six steps, and those of the same steps as they are; `said`; what a rate of either kind
is after it was set.
"""

from __future__ import annotations

import json

import torch
from common.graphed import Graphed, graphed, set_rate


def losses(as_graph: bool) -> tuple[list[float], list[str]]:
    """Return the losses of six steps, and what was said."""
    torch.manual_seed(1)
    network, said = torch.nn.Linear(3, 1), list[str]()
    rate = torch.zeros(()) if as_graph else 0.0
    optimizer = torch.optim.SGD(network.parameters(), rate)

    def step(rows: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = network(rows).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()  # type: ignore[no-any-return, unused-ignore]

    compute = graphed(step, optimizer, said.append)
    assert isinstance(compute, Graphed) == as_graph
    found = []
    for number in range(6):
        set_rate(optimizer, 0.1 / (number + 1))
        found.append(float(compute(torch.randn(4, 3))))
    return found, said


graph, said = losses(as_graph=True)
print(json.dumps({"graph": graph, "as it is": losses(as_graph=False)[0], "said": said}))
