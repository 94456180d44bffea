"""Answers with values of train.py's own functions: `answer_values.py FILE`."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[6] / "training_code" / "language" / "pytorch"))
# by name: for the type checker, these are another workload's
train: Any = importlib.import_module("train")
language: Any = importlib.import_module("model")
sharding: Any = importlib.import_module("sharding")
speed: Any = importlib.import_module("speed")

torch = train.torch
PROGRESS = (0, 0.025, 0.05, 0.5, 0.525, 1)
STEPS = (0, 50)
"""Of 100."""
GRADIENTS = {"long": ((3.0, 4.0), (12.0,)), "short": ((0.3, 0.0), (0.4,))}


def rate(step: int) -> float:
    """Return the rate of a step of 100, where the highest is 2."""
    group = {"lr": 0.0}
    options = SimpleNamespace(steps=100, learning_rate=2.0)
    run: Any = SimpleNamespace(options=options, optimizer=SimpleNamespace(param_groups=[group]))
    train.set_learning_rate(run, step)
    return group["lr"]


def clipped(gradients: tuple[tuple[float, ...], ...]) -> dict[str, Any]:
    """Return the norm of these gradients, and by how much a step of rate 1 changes weights of 0."""
    model: Any = torch.nn.ParameterList(
        torch.zeros(len(each), dtype=torch.float64) for each in gradients
    )
    for weight, gradient in zip(model, gradients, strict=True):
        weight.grad = torch.tensor(gradient, dtype=torch.float64)
    plan = sharding.Plan(precision="float64")
    spread = sharding.Spread(model, model, plan, torch.device("cpu"), None)
    norm = spread.step(torch.optim.SGD(model.parameters(), lr=1.0))
    return {"norm": norm.item(), "changes": [each.tolist() for each in model]}


if __name__ == "__main__":
    answers = {
        "shares": [train.cosine(progress) for progress in PROGRESS],
        "rates": [rate(step) for step in STEPS],
        "clipped": {name: clipped(gradients) for name, gradients in GRADIENTS.items()},
        "flops": {
            f"{depth} {context}": speed.flops_per_token(language.Config.of_depth(depth, context))
            for depth, context in ((1, 8), (2, 256), (24, 2048))
        },
    }
    Path(sys.argv[1]).write_text(json.dumps(answers))
