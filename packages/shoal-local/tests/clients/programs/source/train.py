"""Fit y = 2x + 1 with PyTorch, print the loss, and serve the model."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch


def fit(steps: int) -> torch.nn.Linear:
    torch.manual_seed(0)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    x = torch.linspace(-1, 1, 32).reshape(-1, 1)
    for _ in range(steps):
        loss = torch.nn.functional.mse_loss(model(x), 2 * x + 1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss={loss.item():.6f}", flush=True)
    return model


def model_fn(folder: str) -> torch.nn.Linear:
    model = torch.nn.Linear(1, 1)
    model.load_state_dict(torch.load(Path(folder) / "model.pt", weights_only=True))
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--channel", default="")
    settings, _ = parser.parse_known_args()
    model = fit(settings.steps)
    folder = Path(os.environ["SM_MODEL_DIR"])
    torch.save(model.state_dict(), folder / "model.pt")
    if settings.channel:
        files = sorted(Path(os.environ[f"SM_CHANNEL_{settings.channel.upper()}"]).rglob("*.*"))
        (folder / "channel.txt").write_text(" ".join(each.name for each in files))
