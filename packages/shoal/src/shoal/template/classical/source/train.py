"""Trains the model of model.py on all rows. Nothing here knows what the table is about."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from model import fit, loss
from rows import read
from saved_model import save


def main(arguments: Sequence[str]) -> None:
    """Train, say how well, and save."""
    options = _parse(arguments)
    rows, targets = read(options.train_dir)
    model = fit(rows, targets, options.iterations, options.learning_rate, options.seed)
    # workload.yaml finds the loss in this line
    print(f"train_loss={loss(model, rows, targets):.6f}", flush=True)
    save(model, options.model_dir)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the hyperparameters of an environment's file, and where SageMaker put the channels."""
    parser = argparse.ArgumentParser(description="Train a model.", allow_abbrev=False)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    for name, variable in (("--train-dir", "SM_CHANNEL_TRAIN"), ("--model-dir", "SM_MODEL_DIR")):
        default = os.environ.get(variable)
        parser.add_argument(name, type=Path, default=default, required=default is None)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
