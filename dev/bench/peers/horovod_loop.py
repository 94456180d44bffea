"""The same loop with Horovod over MPI or gloo, as in its MNIST example.

`horovodrun -np 2 python horovod_loop.py`
"""

from __future__ import annotations

from setting import Clock, parse, pin, report

pin()

import horovod.torch as hvd
import torch
from example import Mnist, Net, accuracy, endless
from torch.nn import functional
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def main() -> None:
    """Run one rank."""
    setting = parse()
    hvd.init()
    torch.manual_seed(setting.seed)
    network = Net()
    optimizer = torch.optim.Adadelta(network.parameters(), lr=1.0)
    hvd.broadcast_parameters(network.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=network.named_parameters())
    train = Mnist(setting.data, "train")
    sampler = DistributedSampler(train, num_replicas=hvd.size(), rank=hvd.rank())
    batches = endless(DataLoader(train, batch_size=setting.batch, sampler=sampler))
    clock = Clock(setting, hvd.size())
    network.train()
    for _ in clock.steps():
        data, target = next(batches)
        optimizer.zero_grad()
        functional.nll_loss(network(data), target).backward()
        optimizer.step()
    if hvd.rank() == 0:
        report(
            images_per_s=clock.images_per_s,
            accuracy=accuracy(network, setting.data, setting.tested),
        )
    hvd.shutdown()


if __name__ == "__main__":
    main()
