"""The same loop with Lightning Fabric, as its guide converts PyTorch code.

`torchrun --nproc-per-node 2 lightning_loop.py`
"""

from __future__ import annotations

import os

from setting import Clock, parse, pin, report

pin()

import torch
from example import Mnist, Net, accuracy, endless
from lightning_fabric import Fabric
from torch.nn import functional
from torch.utils.data import DataLoader


def main() -> None:
    """Run one rank."""
    setting = parse()
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    fabric = Fabric(accelerator="cpu", devices=ranks, strategy="ddp" if ranks > 1 else "auto")
    fabric.launch()
    fabric.seed_everything(setting.seed)
    network = Net()
    model, optimizer = fabric.setup(network, torch.optim.Adadelta(network.parameters(), lr=1.0))
    loader = fabric.setup_dataloaders(
        DataLoader(Mnist(setting.data, "train"), batch_size=setting.batch, shuffle=True)
    )
    batches = endless(loader)
    clock = Clock(setting, ranks)
    model.train()
    for _ in clock.steps():
        data, target = next(batches)
        optimizer.zero_grad()
        fabric.backward(functional.nll_loss(model(data), target))
        optimizer.step()
    if fabric.is_global_zero:
        report(
            images_per_s=clock.images_per_s,
            accuracy=accuracy(network, setting.data, setting.tested),
        )


if __name__ == "__main__":
    main()
