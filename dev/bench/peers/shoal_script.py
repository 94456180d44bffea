"""The shipped script's own step on the peers' network.

`mpirun -np 2 smddprun python -m mpi4py shoal_script.py`, or alone.

Batches, preprocessing, precision, gradient averaging and optimizer are those of
training_code/mnist/pytorch. Only the network is replaced, by the same layers in the shipped
network's manner (pool before relu, features in the order of channels_last).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from setting import Clock, parse, pin, report

pin()
sys.path.insert(0, os.environ["BENCH_TRAINING_CODE"])

import torch
import train
from common.graphed import set_rate
from common.ranks import joined
from model import prepare
from torch import nn
from torch.nn import functional


class Net(nn.Module):  # type: ignore[misc, unused-ignore] # untyped where torch is not installed
    """conv 32 - conv 64 - pool - fc 128 - fc 10, as in example.py."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return logits (N, 10) of prepared images (N, 1, 28, 28)."""
        features = functional.relu(self.conv1(pixels))
        features = functional.relu(functional.max_pool2d(self.conv2(features), 2))
        return self.fc2(functional.relu(self.fc1(features.permute(0, 2, 3, 1).flatten(1))))


def new_network(device: torch.device) -> nn.Module:
    """Replace model.new_network."""
    return Net().to(device).to(memory_format=torch.channels_last)


def main() -> None:
    """Run one rank."""
    setting = parse()
    train.new_network = new_network  # type: ignore[attr-defined, assignment, unused-ignore]
    given = {
        "--train-dir": setting.data,
        "--test-dir": setting.data,
        "--model-dir": Path.cwd() / "model",
        "--batch-size-per-rank": setting.batch,
        "--epochs": 1,
        "--seed": setting.seed,
    }
    words = [str(word) for option in given.items() for word in option]
    options = train.parse_options(words, os.environ)
    with joined(options.backend, os.environ) as ranks:
        run = train.set_up(options, ranks)
        run.parallel.train()
        clock, steps = Clock(setting, ranks.world_size), training(run)
        for _ in clock.steps():
            next(steps)
        share = accuracy(run, setting.tested)
        if ranks.is_first:
            report(images_per_s=clock.images_per_s, accuracy=share)


def training(run: train.Run) -> Iterator[None]:
    """Do a step for each `next`, epoch after epoch."""
    while True:
        for done, (images, labels) in enumerate(train.batches(run, 0)):
            rate = train.one_cycle(done / run.total_steps, run.peak_learning_rate)
            set_rate(run.optimizer, rate)
            train.train_step(run, images, labels)
            yield


def accuracy(run: train.Run, count: int) -> float:
    """Return the share of the first `count` test images that the network knows, in float32 as for
    the peers.
    """
    images, labels = (each[:count] for each in run.test.tensors)
    run.network.eval()
    with torch.inference_mode():
        answers = torch.cat([run.network(prepare(each)).argmax(1) for each in images.split(500)])
    return float((answers == labels).float().mean())


if __name__ == "__main__":
    main()
