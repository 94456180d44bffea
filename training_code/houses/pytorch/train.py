"""Trains a regression on a table, with as many processes as torchrun starts; each takes its share
of the rows, and gradients are averaged.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist
from model import Network, read_table, save
from torch import nn

SERVED = ("inference.py", "model.py")
"""What the endpoint runs."""


def main(arguments: Sequence[str]) -> None:
    """Train, and save on rank 0."""
    options = _parse(arguments)
    launched = "RANK" in os.environ
    if interface := os.environ.get("SM_NETWORK_INTERFACE_NAME"):
        # gloo looks up the host's name, and takes 127.0.0.1 where that says nothing better.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    if launched:
        dist.init_process_group("gloo")
    rank, world_size = (dist.get_rank(), dist.get_world_size()) if launched else (0, 1)
    network = train(options, rank, world_size)
    if rank == 0:
        save(network, os.environ.get("TRAINING_JOB_NAME", "local"), options.model_dir)
        code = options.model_dir / "code"
        code.mkdir(exist_ok=True)
        for name in SERVED:
            shutil.copyfile(Path(__file__).with_name(name), code / name)
    if launched:
        # What still refers to the process group keeps its threads, and gloo's abort the interpreter
        # at exit: without this, one run in six ended with SIGABRT after its last epoch.
        gc.collect()
        dist.destroy_process_group()


def train(options: argparse.Namespace, rank: int, world_size: int) -> Network:
    """Return the network after all epochs; it is the same on every rank."""
    features, targets = read_table(options.train_dir)
    torch.manual_seed(options.seed)
    network = Network()
    network.fit_scale(features, targets)
    optimizer = torch.optim.Adam(network.parameters(), lr=options.learning_rate)
    share = len(features) // world_size
    started = time.monotonic()
    for epoch in range(1, options.epochs + 1):
        # the same order on every rank, from which each takes its own rows
        order = torch.randperm(len(features))[rank * share : (rank + 1) * share]
        loss = torch.zeros(())
        batches = order.split(max(1, options.batch_size // world_size))
        for rows in batches:
            optimizer.zero_grad()
            error = (network(features[rows]) - targets[rows]) / network.targets_std
            batch_loss = error.square().mean()
            batch_loss.backward()
            _average(network, world_size)
            optimizer.step()
            loss += batch_loss.detach()
        if rank == 0:
            rate = epoch * share * world_size / (time.monotonic() - started)
            print(
                f"epoch={epoch} train_loss={loss / len(batches):.6f} rows_per_second={rate:.0f}"
                f" world_size={world_size}",
                flush=True,
            )
    return network


def _average(network: nn.Module, world_size: int) -> None:
    if world_size > 1:
        for parameter in network.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= world_size


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a regression.", allow_abbrev=False)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=32, help="of all processes together")
    parser.add_argument("--learning-rate", type=float, default=0.003)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--train-dir", type=Path, default=os.environ.get("SM_CHANNEL_TRAIN", "train")
    )
    parser.add_argument("--model-dir", type=Path, default=os.environ.get("SM_MODEL_DIR", "model"))
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
