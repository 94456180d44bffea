"""Trains the network of network.py, with as many processes as torchrun starts: each takes its share
of the rows, and gradients are averaged. Nothing here knows what the table is about.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist
from network import Network, loss
from rows import read
from saved_model import save
from torch.nn.parallel import DistributedDataParallel


def main(arguments: Sequence[str]) -> None:
    """Train, and save on rank 0."""
    options = _parse(arguments)
    launched = "RANK" in os.environ  # torchrun sets it
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    if interface := os.environ.get("SM_NETWORK_INTERFACE_NAME"):
        # gloo looks up the host's name, and takes 127.0.0.1 where that says nothing better.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    if launched:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    rank, world_size = (dist.get_rank(), dist.get_world_size()) if launched else (0, 1)
    network = train(options, device, rank, world_size)
    if rank == 0:
        save(network.cpu(), options.model_dir)
    if launched:
        # What still refers to the process group keeps its threads, and gloo's abort the interpreter
        # at exit.
        gc.collect()
        dist.destroy_process_group()


def train(options: argparse.Namespace, device: torch.device, rank: int, world_size: int) -> Network:
    """Return the network after all epochs; it is the same on every rank."""
    rows, targets = (torch.tensor(each, device=device) for each in read(options.train_dir))
    torch.manual_seed(options.seed)
    network: Network = Network().to(device)
    network.fit_scale(rows, targets)
    parallel = DistributedDataParallel(network) if world_size > 1 else network
    optimizer = torch.optim.Adam(network.parameters(), lr=options.learning_rate)
    share = len(rows) // world_size
    checkpoint = options.checkpoint_dir / "checkpoint.pt"
    done = resumed(checkpoint, network, optimizer)
    for epoch in range(done + 1, options.epochs + 1):
        # the same order on every rank, from which each takes its own rows
        order = torch.randperm(len(rows))[rank * share : (rank + 1) * share]
        losses = []
        for batch in order.split(max(1, options.batch_size // world_size)):
            optimizer.zero_grad()
            batch_loss = loss(parallel(rows[batch]), targets[batch])
            batch_loss.backward()
            optimizer.step()
            losses.append(batch_loss.item())
        if rank == 0:  # workload.yaml finds the loss in this line
            print(f"epoch={epoch} train_loss={sum(losses) / len(losses):.6f}", flush=True)
            keep(checkpoint, epoch, network, optimizer)
    return network


def keep(file: Path, done: int, network: Network, optimizer: torch.optim.Optimizer) -> None:
    """Replace the checkpoint after `done` epochs, whole or not at all. SageMaker copies its folder
    to S3 and, when it starts an interrupted job again, back.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    state = {"done": done, "network": network.state_dict(), "optimizer": optimizer.state_dict()}
    partial = file.with_suffix(".partial")
    torch.save(state | {"random": torch.get_rng_state()}, partial)
    partial.replace(file)


def resumed(file: Path, network: Network, optimizer: torch.optim.Optimizer) -> int:
    """Restore what `keep` saved, and return the epochs done: 0 without a checkpoint."""
    if not file.is_file():
        return 0
    state = torch.load(file, map_location="cpu", weights_only=True)
    network.load_state_dict(state["network"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["random"])
    return int(state["done"])


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the hyperparameters of an environment's file, and where SageMaker put the channels."""
    parser = argparse.ArgumentParser(description="Train a model.", allow_abbrev=False)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=64, help="of all processes together")
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint-dir", type=Path, help="default: beside the model")
    for name, variable in (("--train-dir", "SM_CHANNEL_TRAIN"), ("--model-dir", "SM_MODEL_DIR")):
        default = os.environ.get(variable)
        parser.add_argument(name, type=Path, default=default, required=default is None)
    options = parser.parse_args(arguments)
    # beside /opt/ml/model: the folder that SageMaker copies
    options.checkpoint_dir = options.checkpoint_dir or options.model_dir.parent / "checkpoints"
    return options


if __name__ == "__main__":
    main(sys.argv[1:])
