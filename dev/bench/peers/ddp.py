"""pytorch/examples' MNIST with DistributedDataParallel over gloo: `torchrun --nproc-per-node 2
ddp.py`, or alone.

The training loop is `mnist/main.py`'s (Adadelta at 1.0, a DataLoader in the process, as the example
has it without CUDA). What makes it parallel comes from the `distributed/ddp-tutorial-series`:
init_process_group, DistributedSampler, DistributedDataParallel.
"""

from __future__ import annotations

import os

from setting import Clock, parse, pin, report

pin()

import torch
import torch.distributed as dist
from example import Mnist, Net, accuracy, endless
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def main() -> None:
    """Run one rank."""
    setting = parse()
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(setting.seed)
    network = Net()
    model: torch.nn.Module = DistributedDataParallel(network) if ranks > 1 else network
    train = Mnist(setting.data, "train")
    sampler = DistributedSampler(train) if ranks > 1 else None
    loader = DataLoader(train, batch_size=setting.batch, sampler=sampler, shuffle=sampler is None)
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    batches = endless(loader)
    model.train()

    def step() -> None:
        data, target = next(batches)
        optimizer.zero_grad()
        functional.nll_loss(model(data), target).backward()
        optimizer.step()

    clock = Clock(setting, ranks)
    for _ in clock.steps():
        step()
    figures = {
        "images_per_s": clock.images_per_s,
        "accuracy": accuracy(network, setting.data, setting.tested),
    }
    if ranks == 1 or dist.get_rank() == 0:
        report(**figures)
    if ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
