"""Trains the network of model.py on the CPU, or on every GPU of the one host. Nothing here knows
what the table is about.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from model import LOSS, new_network
from saved_model import save
from table import read


class Lines(tf.keras.callbacks.Callback):  # type: ignore[misc, unused-ignore] # untyped where TensorFlow is not installed
    """Prints a line an epoch, in which workload.yaml finds the loss."""

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Print the mean loss of the epoch."""
        print(f"epoch={epoch + 1} train_loss={(logs or {})['loss']:.6f}", flush=True)


def main(arguments: Sequence[str]) -> None:
    """Train and save."""
    options = _parse(arguments)
    tf.keras.utils.set_random_seed(options.seed)
    rows, targets = (np.array(each) for each in read(options.train_dir))
    rows = rows.astype(np.float32)
    with tf.distribute.MirroredStrategy().scope():
        network = new_network(rows, targets)
        network.compile(tf.keras.optimizers.Adam(options.learning_rate), LOSS)
    batches = {"batch_size": options.batch_size, "epochs": options.epochs}
    network.fit(rows, targets, **batches, verbose=0, callbacks=[Lines()])
    # The weights lie on every GPU; what is saved must not.
    plain = new_network(rows, targets)
    plain.set_weights(network.get_weights())
    save(plain, os.environ.get("TRAINING_JOB_NAME", "local"), options.model_dir)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the hyperparameters of an environment's file, and where SageMaker put the channels."""
    parser = argparse.ArgumentParser(description="Train a model.", allow_abbrev=False)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=1)
    for name, variable in (("--train-dir", "SM_CHANNEL_TRAIN"), ("--model-dir", "SM_MODEL_DIR")):
        default = os.environ.get(variable)
        parser.add_argument(name, type=Path, default=default, required=default is None)
    parser.add_argument("--model_dir", dest="sdk_model_dir", help="SageMaker's; not used")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
