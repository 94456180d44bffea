"""Trains a regression on a table, with as many processes as torchrun starts; each takes its share
of the rows, and gradients are averaged.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from common import checkpoint
from common.archive import save_code
from common.averaging import averaged
from common.ranks import Ranks, joined
from model import Network, read_table, save

SERVED = ("inference.py", "model.py")
"""What the endpoint runs."""


def main(arguments: Sequence[str]) -> None:
    """Train, and save on rank 0."""
    options = _parse(arguments)
    with joined("gloo", os.environ) as ranks:
        network = train(options, ranks)
        if ranks.is_first:
            save(network, os.environ.get("TRAINING_JOB_NAME", "local"), options.model_dir)
            save_code(options.model_dir, Path(__file__).parent, SERVED)


def train(options: argparse.Namespace, ranks: Ranks) -> Network:
    """Return the network after all epochs; it is the same on every rank."""
    features, targets = read_table(options.train_dir)
    torch.manual_seed(options.seed)
    network = Network()
    network.fit_scale(features, targets)
    averaged(network, ranks, "flat")
    optimizer = torch.optim.Adam(network.parameters(), lr=options.learning_rate)
    share = len(features) // ranks.world_size
    folder, names = options.checkpoint_dir, ("batch_size", "learning_rate", "seed")
    settings = {name: getattr(options, name) for name in names}  # a run that goes on shares them
    done = checkpoint.read(folder, settings, network, optimizer, ranks.device)
    started = time.monotonic()
    for epoch in range(done + 1, options.epochs + 1):
        # the same order on every rank, from which each takes its own rows
        order = torch.randperm(len(features))[ranks.rank * share : (ranks.rank + 1) * share]
        loss = torch.zeros(())
        batches = order.split(max(1, options.batch_size // ranks.world_size))
        for rows in batches:
            optimizer.zero_grad()
            error = (network(features[rows]) - targets[rows]) / network.targets_std
            batch_loss = error.square().mean()
            batch_loss.backward()
            optimizer.step()
            loss += batch_loss.detach()
        rate = (epoch - done) * share * ranks.world_size / (time.monotonic() - started)
        ranks.say(
            f"epoch={epoch} train_loss={loss / len(batches):.6f} rows_per_second={rate:.0f}"
            f" world_size={ranks.world_size}"
        )
        if ranks.is_first:
            checkpoint.write(folder, settings, epoch, network, optimizer)
    return network


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
    parser.add_argument("--checkpoint-dir", type=Path, help="default: beside the model")
    options = parser.parse_args(arguments)
    # beside /opt/ml/model: the folder that SageMaker copies to S3, and back
    options.checkpoint_dir = options.checkpoint_dir or options.model_dir.parent / "checkpoints"
    return options


if __name__ == "__main__":
    main(sys.argv[1:])
