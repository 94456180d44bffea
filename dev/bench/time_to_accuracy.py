"""The time until 99 % of MNIST's test images are known, from the start of mpirun to its end.

Also how far pytorch/examples is by then.
"""

from __future__ import annotations

import itertools
import json
import re
import tempfile
from pathlib import Path

from dev.bench import environments
from dev.bench.interleave import Contender, Metrics
from dev.bench.training import CODE, DATA, DDP, RANKS, SCRIPTS, mpirun, start, torchrun

NAME = "Shoal, shipped script"
TARGET = 0.99
EPOCHS = "1.1"
_TESTED = re.compile(r"test_accuracy=(\d\.\d+)")


def shipped() -> Contender:
    """Return the shipped script with its defaults; each run, repeated ones too, takes the next
    seed.
    """
    python, seeds = environments.shipped("pytorch"), itertools.count(1)

    def measure() -> Metrics:
        seed = next(seeds)
        return {**run_shipped(python, seed), "seed": float(seed)}

    return Contender(NAME, measure, start=str(python.parent))


def run_shipped(python: Path, seed: int) -> Metrics:
    """Run it once, with two ranks under mpirun."""
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        folders: list[str | Path] = [
            "--train-dir",
            DATA,
            "--test-dir",
            DATA,
            "--model-dir",
            f"{folder}/model",
        ]
        settings = ["--seed", str(seed), "--epochs", EPOCHS, "--log-every", "1000"]
        finished = start([*mpirun(python), CODE / "train.py", *folders, *settings], RANKS, {})
        model = json.loads(Path(folder, "model", "model.json").read_text())
    accuracy = float(_TESTED.findall(finished.stdout)[-1])
    return {
        "process_s": finished.wall_s,
        "accuracy": accuracy,
        "reached": float(accuracy >= TARGET),
        "world_size": model["world_size"],
    }


def example(seconds: float) -> Contender:
    """Return pytorch/examples with DDP over gloo, stopped after so many seconds of training."""
    peers = environments.peers()
    command = [
        *torchrun(peers),
        SCRIPTS / "ddp.py",
        "--data",
        DATA,
        "--tested",
        "10000",
        "--seconds",
        str(seconds),
    ]

    def measure() -> Metrics:
        finished = start(command, RANKS, {}, timeout_s=seconds + 120)
        return {"process_s": finished.wall_s, **finished.result}

    return Contender(DDP, measure, start=str(peers.parent))
