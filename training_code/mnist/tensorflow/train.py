"""Train a digit classifier on MNIST.

    python train.py --train-dir mnist/train --test-dir mnist/test --model-dir model

Started like this it is one process with one copy of the network. The other train_*.py call the same
`main` with another way to compute a step: processes that average their gradients
(train_horovod.py, train_smddp.py), copies that TensorFlow keeps equal (train_mirrored.py,
train_multi_worker_mirrored.py), or workers that wait for nobody (train_parameter_server.py).
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf
from checkpoint import Checkpoint
from common.stopping import EXIT_CODE
from data import Digits, batches
from model import losses, new_network, new_optimizer, prepare, save, test_sums
from run import Run, parse_options


class Alone:
    """One process with one copy of the network. Each strategy overrides what it does otherwise."""

    name = "none"
    rank = 0
    """Rank 0 prints, and writes the checkpoint and the model."""
    processes = 1
    """Ranks that share the batches and the test images."""
    replicas = 1
    """Copies of the network, each of which computes its part of a global batch."""
    summed = 1
    """Replicas whose gradients the optimizer adds up."""
    deterministic = True
    """Whether equal runs give equal weights, to the bit."""
    io_device: str | None = None
    """The task whose disk has the checkpoint, where there is a choice."""
    scope: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
    """In its context the network and the optimizer are made."""

    @property
    def parts(self) -> dict[str, int]:
        """What takes part, for the line that says so."""
        return {"processes": self.processes, "ranks": self.processes}

    def batches(self, digits: Digits, run: Run, epoch: int, done: int) -> Any:
        """Return what `step` takes, for each step of the epoch after the first `done`."""
        return batches(digits, run, epoch, done, self.rank, self.processes)

    def gradients(self, tape: tf.GradientTape, loss: tf.Tensor, weights: Any) -> Any:
        """Return the gradients of the loss."""
        return tape.gradient(loss, weights)

    def step(self, replica_step: Callable[..., Any], network: Any, optimizer: Any) -> Any:
        """Return the function that runs a step on all replicas and returns its loss."""
        return tf.function(replica_step)

    def loss(self, value: Any) -> float:
        """Return the loss, once the step that has it is done."""
        return float(value)

    def average(self, value: tf.Tensor) -> tf.Tensor:
        """Return the mean of what all ranks pass. It returns when all of them have called it."""
        return value

    def checkpoint_dir(self, folder: Path) -> Path | None:
        """Return where this rank writes the checkpoint, None if it does not."""
        return folder if self.rank == 0 else None


def main(join: Callable[[], Alone] = Alone) -> None:
    """Read the options, join the other processes, train, test and save."""
    options = parse_options(sys.argv[1:], os.environ)
    way = join()
    if way.deterministic:
        tf.config.experimental.enable_op_determinism()
    digits = Digits.read(options.train_dir, "train")
    test_digits = Digits.read(options.test_dir, "t10k")
    run = Run(options, len(digits), way)
    with way.scope():
        network, optimizer = new_network(options.seed), new_optimizer(run.learning_rates)
    # The weights may lie on many devices or servers; what is tested and saved must not.
    plain = new_network(options.seed)
    folder = way.checkpoint_dir(options.checkpoint_dir)
    checkpoint = Checkpoint(run, network, optimizer, way.average, folder, way.io_device)

    def replica_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(losses(network(prepare(images)), labels)) / way.summed
        gradients = way.gradients(tape, loss, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables))
        return loss

    train_step = way.step(replica_step, network, optimizer)
    for epoch, done in run.epochs(checkpoint.restore()):
        for step, batch in enumerate(way.batches(digits, run, epoch, done), start=done + 1):
            loss = train_step(*batch)
            if run.looks(step):
                run.trained(epoch, step, way.loss(loss))
            if checkpoint.after(step):
                run.say(
                    f"stopped on SIGTERM at epoch={epoch} step={step}; the checkpoint is in"
                    f" {options.checkpoint_dir}"
                )
                sys.exit(EXIT_CODE)
        plain.set_weights(network.get_weights())
        sums = way.average(test_sums(plain, test_digits.share(way.rank, way.processes)))
        run.tested(epoch, sums * way.processes, len(test_digits))
    if way.rank == 0:
        save(plain, run.metadata(), options.model_dir)
    run.say(f"saved the model in {options.model_dir}")
    # A rank that leaves before the model is saved could look like a failure to the others.
    way.average(tf.constant(0.0))


if __name__ == "__main__":
    main()
