"""Train a digit classifier on MNIST with tf.distribute.MirroredStrategy.

    python train_mirrored.py --train-dir mnist/train --test-dir mnist/test --model-dir model

One process has a copy of the network on each GPU of its host. Without GPUs two logical CPU devices
stand in for them, so that the same code runs. It differs from train.py: variables are made in the
strategy's scope, a step runs once per replica, apply_gradients adds the gradients up (hence the
division), and the strategy hands out the batches.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

import tensorflow as tf
from checkpoint import Checkpoint
from data import read_test, read_train, slices
from devices import replicas
from metrics import Metrics
from model import mean_loss, new_network, new_optimizer, save, test_sums
from plan import Plan, parse_options

CPU_REPLICAS = 2


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Train, test and save."""
    options = parse_options(arguments, environ)
    strategy = tf.distribute.MirroredStrategy(replicas(without_gpus=CPU_REPLICAS))
    tf.config.experimental.enable_op_determinism()
    digits, test_digits = read_train(options.train_dir), read_test(options.test_dir)
    plan = Plan(options, len(digits), replicas=strategy.num_replicas_in_sync)
    metrics = Metrics(plan, "mirrored", processes=1, parts={"replicas": plan.replicas})
    with strategy.scope():
        network, optimizer = new_network(plan.seed), new_optimizer(plan.learning_rates)
    checkpoint = Checkpoint(plan, network, optimizer, folder=options.checkpoint_dir)
    start = checkpoint.restore()
    metrics.resumed(start)

    def replica_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = mean_loss(network, images, labels) / plan.replicas
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables))
        return loss

    @tf.function
    def train_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return strategy.reduce(
            tf.distribute.ReduceOp.SUM, strategy.run(replica_step, (images, labels)), axis=None
        )

    for epoch, done in plan.epochs(start):
        dataset = strategy.distribute_datasets_from_function(slices(digits, plan, epoch, done))
        for step, (images, labels) in enumerate(dataset, start=done + 1):
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
