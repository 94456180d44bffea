"""Train a digit classifier on MNIST.

    python train.py --train-dir mnist/train --test-dir mnist/test --model-dir model

Started like this it is one process with one copy of the network; the other train_*.py start it with
a strategy of strategies.py.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from common import tracking
from common.options import global_batch, parse_run, positive, positive_number, require_same
from common.stopping import EXIT_CODE, StopRequest
from model import new_network, read, save

REFERENCE_BATCH = 256
"""The global batch that the learning rate is chosen for."""
WARM_UP_SHARE = 0.3
SWITCH = ("True", "False")  # as SageMaker hands YAML's true on


def parse_options() -> argparse.Namespace:
    """Read the command line, then SageMaker's SM_* variables, then defaults."""
    parser = argparse.ArgumentParser(description="Train on MNIST.", allow_abbrev=False)
    add = parser.add_argument
    add("--epochs", type=positive, default=2)
    add("--batch-size", type=positive, default=REFERENCE_BATCH, help="images of ALL replicas")
    add("--learning-rate", type=positive_number, default=0.01, help=f"for batch {REFERENCE_BATCH}")
    add("--precision", choices=("fp32", "bf16"), default="fp32", help="of the layers")
    add("--xla", choices=SWITCH, default="False", help="True: compiled, not deterministic")
    add("--deterministic", choices=SWITCH, default="True", help="False is faster on GPUs")
    add("--model_dir", dest="unused", help="an S3 URI that SageMaker's SDK adds")
    return parse_run(parser, sys.argv[1:], os.environ)


class Alone:
    """One process with one copy of the network. Each strategy overrides what it does otherwise."""

    name, parts = "none", "processes=1 ranks=1"
    rank, processes, workers = 0, 1, 0
    """Processes share batches and test images; rank 0 prints, and writes checkpoint and model."""
    io = tf.train.CheckpointOptions()
    spare_dir: Path | None = None
    """Where other ranks write a checkpoint, if the strategy needs them to."""
    average: Callable[[tf.Tensor], tf.Tensor] = staticmethod(tf.identity)
    """Returns the mean of what all processes pass, when all of them have called it."""
    tape: Callable[[tf.GradientTape], tf.GradientTape] = staticmethod(lambda tape: tape)
    """Returns a tape whose gradients are averaged over the processes."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Join the other processes, and make the network, the same in each. Raise ValueError."""
        self.options = options
        self.strategy, self.stop = self.join(), StopRequest()  # TensorFlow's handler goes first
        if options.deterministic == "True" and options.xla == "False":
            tf.config.experimental.enable_op_determinism()
        self.replicas = max(self.processes, self.strategy.num_replicas_in_sync)
        self.world_size = max(self.replicas, self.workers)
        self.train, self.test = read(options.train_dir, "train"), read(options.test_dir, "t10k")
        images = len(self.train[1])
        self.batch = global_batch(options.batch_size, None, self.replicas, images)
        # Whole batches: an uneven last one would weigh its images differently on each replica.
        self.steps_per_epoch = images // self.batch
        # What decides what is learned: a checkpoint must share it with the run that resumes.
        self.identity = {
            "epochs": options.epochs,
            "batch_size": self.batch,
            # Scaled with the batch (Goyal et al., arXiv 1706.02677).
            "learning_rate": options.learning_rate * self.batch / REFERENCE_BATCH,
            "seed": options.seed,
            "precision": options.precision,
            "images": images,
        }
        # TensorFlow 2.9 to 2.21 all have this Adam; since 2.11 it is called legacy.
        adam = getattr(tf.keras.optimizers, "legacy", tf.keras.optimizers).Adam
        with self.strategy.scope():
            self.network = new_network(options.seed % 2**59, options.precision)
            self.optimizer: Any = adam(lambda: self.learning_rate(self.optimizer.iterations))
            # Before the first step, so that they can be restored and broadcast.
            self.optimizer._create_all_weights(self.network.trainable_variables)
        # Not the whole step: messages between processes are not for XLA.
        self.forward = tf.function(self.network, jit_compile=options.xla == "True")
        # The weights may lie on many devices or servers; what is tested and saved must not.
        self.plain = new_network(options.seed % 2**59)
        self.settings = tf.Variable(json.dumps(self.identity, sort_keys=True))
        self.checkpoint = tf.train.Checkpoint(
            network=self.network, optimizer=self.optimizer, run=self.settings
        )
        self.started_at = time.monotonic()
        self.say(f"strategy={self.name} global_batch={self.batch} {self.parts}")

    @classmethod
    def main(cls, *arguments: Any) -> None:
        """Read the options, join the other processes, train, test and save."""
        run = cls(parse_options(), *arguments)
        metadata = {
            **run.identity,
            "training_job_name": run.options.job_name,
            "strategy": run.name,
            "world_size": run.world_size,
            "test_accuracy": train(run, restore(run)),
        }
        if run.rank == 0:
            save(run.plain, metadata, run.options.model_dir)
        run.say(f"saved the model in {run.options.model_dir}")
        # A rank that leaves before the model is saved could look like a failure to the others.
        run.mean(0)

    def join(self) -> tf.distribute.Strategy:
        """Join the other processes."""
        return tf.distribute.get_strategy()

    def batches(self, epoch: int, done: int) -> Any:
        """Return this process's slice of each global batch of the epoch after the first `done`."""
        images, labels = self.train
        # The same on any number of processes.
        order = np.random.default_rng([self.options.seed % 2**64, epoch]).permutation(len(labels))
        whole = order[: self.steps_per_epoch * self.batch]
        mine = whole.reshape(self.steps_per_epoch, self.processes, -1)[done:, self.rank]
        rows = mine.reshape(-1, self.batch // self.replicas)
        pairs = tf.data.Dataset.from_tensor_slices((images[rows], labels[rows]))
        return self.strategy.distribute_datasets_from_function(lambda _: pairs.prefetch(1))

    def start(self) -> None:
        """Do what is needed between the checkpoint and the first step."""

    @tf.function
    def step(self, *batch: tf.Tensor) -> Any:
        """Train all replicas for one step, and return the loss."""
        losses = self.strategy.run(self.replica_step, batch)
        return self.strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    def replica_step(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Train one replica, and return its share of the loss."""
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, self.forward(images))
            loss = tf.reduce_mean(losses) / self.strategy.num_replicas_in_sync
        gradients = self.tape(tape).gradient(loss, self.network.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.network.trainable_variables))
        return loss

    def mean(self, value: Any) -> float:
        """Return the mean of all processes' values, such as the loss that a step returned."""
        return float(self.average(tf.cast(value, tf.float32)))

    def say(self, line: str) -> None:
        """Print once per job."""
        if self.rank == 0:
            print(line, flush=True)
            tracking.log(line)

    def learning_rate(self, done: Any) -> tf.Tensor:
        """Return the rate of the step after `done` steps: a cosine up to the peak, one down."""
        peak = self.identity["learning_rate"]
        share = tf.cast(done, tf.float32) / (self.options.epochs * self.steps_per_epoch)
        rises = share < WARM_UP_SHARE
        height = tf.where(rises, share / WARM_UP_SHARE, (1 - share) / (1 - WARM_UP_SHARE))
        low = tf.where(rises, peak / 25, peak / 250_000)
        return low + (peak - low) * (1 - tf.cos(math.pi * height)) / 2


def restore(run: Alone) -> int:
    """Read the checkpoint, if there is one, and return the steps that are done.

    Raise ValueError if it cannot be read, has other settings, or differs between hosts.
    """
    folder = run.options.checkpoint_dir
    if (folder / "checkpoint").exists():
        path = folder / "checkpoint"
        try:
            path = tf.train.latest_checkpoint(str(folder)) or path
            status = run.checkpoint.restore(str(path), run.io)
            status.assert_existing_objects_matched().expect_partial()
        except (tf.errors.OpError, IndexError, ValueError, AssertionError) as error:
            advice = "cannot be read, empty its folder to start again"
            raise ValueError(f"{path} {advice}: {' '.join(str(error).split())}") from error
        require_same(path, json.loads(run.settings.numpy()), run.identity)
    done = int(run.optimizer.iterations.numpy())
    if run.mean(done) != done:
        raise ValueError(f"the ranks' checkpoints differ: this one has {done} steps")
    if done:
        epoch, step = divmod(done - 1, run.steps_per_epoch)
        run.say(f"resumed at epoch={epoch + 1} step={step + 1} from {folder}")
    return done


def train(run: Alone, done: int) -> float:
    """Train after `done` steps to the end, and return the test accuracy; exit if told to stop."""
    options, steps = run.options, run.steps_per_epoch
    folder = options.checkpoint_dir if run.rank == 0 else run.spare_dir
    manager = folder and tf.train.CheckpointManager(run.checkpoint, str(folder), 1)
    run.start()
    for epoch in range(max(1, math.ceil(done / steps)), options.epochs + 1):  # the untested ones
        first = max(0, done - (epoch - 1) * steps)
        since, since_step = time.monotonic(), first
        for step, batch in enumerate(run.batches(epoch, first), start=first + 1):
            loss = run.step(*batch)
            is_due = step == steps or step % options.checkpoint_every == 0
            if not is_due and step % options.log_every:
                continue
            # The only points where processes agree, so that no other step pays for it.
            mean_loss = run.mean(loss)
            speed = (step - since_step) * run.batch / (time.monotonic() - since)
            report(run, epoch, step, mean_loss, speed)
            stopping = run.mean(run.stop.received) > 0
            if manager and (is_due or stopping):
                manager.save(run.optimizer.iterations.numpy(), options=run.io)
            if stopping:
                # No process leaves before it is written: a launcher ends the others when one has.
                run.mean(0)
                where = f"epoch={epoch} step={step}; the checkpoint is in {options.checkpoint_dir}"
                run.say(f"stopped on SIGTERM at {where}")
                sys.exit(EXIT_CODE)
            since, since_step = time.monotonic(), step
        accuracy = evaluate(run, epoch)
    return accuracy


def report(run: Alone, epoch: int, step: int, loss: float, images_per_second: float) -> None:
    """Print the loss of a step. Raise ValueError if it is not a number any more."""
    if not math.isfinite(loss):
        raise ValueError(
            f"the loss is {loss} at epoch {epoch} step {step}: try a smaller --learning-rate"
        )
    rate = float(run.learning_rate((epoch - 1) * run.steps_per_epoch + step - 1))
    run.say(
        f"epoch={epoch} step={step}/{run.steps_per_epoch} train_loss={loss:.6f}"
        f" learning_rate={rate:.6f} images_per_second={images_per_second:.1f}"
        f" elapsed_s={time.monotonic() - run.started_at:.1f} world_size={run.world_size}"
    )


def evaluate(run: Alone, epoch: int) -> float:
    """Return the test accuracy. Every process tests its share of the images."""
    images, labels = (each[run.rank :: run.processes] for each in run.test)
    run.plain.set_weights(run.network.get_weights())
    logits = run.plain.predict(images, batch_size=1000, verbose=0)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    is_right = tf.cast(tf.argmax(logits, axis=1) == labels, tf.float32)
    sums = run.average(tf.reduce_sum([losses, is_right], axis=1)) * run.processes
    loss, accuracy = (float(each) / len(run.test[1]) for each in sums)
    run.say(
        f"epoch={epoch} test_loss={loss:.6f} test_accuracy={accuracy:.4f}"
        f" elapsed_s={time.monotonic() - run.started_at:.1f}"
    )
    return accuracy


if __name__ == "__main__":
    Alone.main()
