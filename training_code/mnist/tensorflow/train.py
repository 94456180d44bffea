"""Train a digit classifier on MNIST in one process.

    python train.py --train-dir mnist/train --test-dir mnist/test --model-dir model

The other train_*.py do the same with many processes; `diff train.py ranks.py` shows what Horovod
and SageMaker's data parallel library need.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

import tensorflow as tf
from checkpoint import Checkpoint
from data import batches, read_test, read_train
from metrics import Metrics
from model import mean_loss, new_network, new_optimizer, save, test_sums
from plan import Plan, parse_options


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Train, test and save."""
    options = parse_options(arguments, environ)
    tf.config.experimental.enable_op_determinism()
    digits, test_digits = read_train(options.train_dir), read_test(options.test_dir)
    plan = Plan(options, len(digits), replicas=1)
    metrics = Metrics(plan, "none")
    network, optimizer = new_network(plan.seed), new_optimizer(plan.learning_rates)
    checkpoint = Checkpoint(plan, network, optimizer, folder=options.checkpoint_dir)
    start = checkpoint.restore()
    metrics.resumed(start)

    @tf.function
    def train_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = mean_loss(network, images, labels)
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables))
        return loss

    for epoch, done in plan.epochs(start):
        for step, (images, labels) in enumerate(batches(digits, plan, epoch, done), start=done + 1):
            loss = train_step(images, labels)
            if metrics.due(step):
                metrics.trained(epoch, step, float(loss))
            if checkpoint.after(step):
                sys.exit(metrics.stopped(epoch, step))
        metrics.tested(epoch, test_sums(network, test_digits), len(test_digits))
    save(network, metrics.metadata(), options.model_dir)
    metrics.say(f"saved the model in {options.model_dir}")


if __name__ == "__main__":
    main(sys.argv[1:], os.environ)
