"""Runs a step as one graph would be, where there is no GPU: `run_as_graph.py` prints JSON.

Losses of six steps as a graph and as they are; what was `said`; and `resumed`, the kind of rate
that an optimizer has after it has read the checkpoint of one with the other kind.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import torch
from common import checkpoint
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


def resumed(was_graph: bool) -> tuple[str, bool, float]:
    """Return kind of rate, whether it can be captured, and the steps that Adam has done."""
    trained, restored = (
        (network, torch.optim.Adam(network.parameters(), rate, capturable=is_graph, fused=True))
        for is_graph in (was_graph, not was_graph)
        for network, rate in ((torch.nn.Linear(3, 1), torch.zeros(()) if is_graph else 0.0),)
    )
    trained[0](torch.ones(1, 3)).sum().backward()
    trained[1].step()
    with tempfile.TemporaryDirectory() as folder:
        checkpoint.write(Path(folder), {}, 1, *trained)
        checkpoint.read(Path(folder), {}, *restored, torch.device("cpu"))
    group, (state, _) = restored[1].param_groups[0], restored[1].state.values()
    return type(group["lr"]).__name__, group["capturable"], float(state["step"])


graph, said = losses(as_graph=True)
answer = {"graph": graph, "as it is": losses(as_graph=False)[0], "said": said}
print(json.dumps({**answer, "resumed": [resumed(True), resumed(False)]}))
