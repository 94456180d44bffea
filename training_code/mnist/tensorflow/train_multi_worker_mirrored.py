"""Train a digit classifier on MNIST with tf.distribute.MultiWorkerMirroredStrategy.

    TF_CONFIG='{"cluster": {"worker": ["algo-1:8890", "algo-2:8890"]},
                "task": {"type": "worker", "index": 0}}' \\
        python train_multi_worker_mirrored.py ...        (SageMaker's toolkit, once per host)

It differs from train_mirrored.py: every worker is a process that runs all of this, the strategy
finds the others in TF_CONFIG and listens at its own address, each worker hands out its slice of the
batches, and worker 0, the chief, prints and saves.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from checkpoint import Checkpoint
from data import read_test, read_train, slices
from metrics import Metrics
from model import mean_loss, new_network, new_optimizer, save, test_sums
from plan import Plan, parse_options


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Train, test and save as one worker."""
    options = parse_options(arguments, environ)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    chief = not strategy.cluster_resolver.task_id  # worker 0; None without TF_CONFIG
    tf.config.experimental.enable_op_determinism()
    digits, test_digits = read_train(options.train_dir), read_test(options.test_dir)
    plan = Plan(options, len(digits), replicas=strategy.num_replicas_in_sync)
    metrics = Metrics(plan, "multi_worker_mirrored", printing=chief, **parts_of(strategy))
    with strategy.scope():
        network, optimizer = new_network(plan.seed), new_optimizer(plan.learning_rates)
    # tf.distribute needs every worker to write; only the chief's checkpoint is kept.
    scratch = tempfile.TemporaryDirectory()
    checkpoint = Checkpoint(
        plan, network, optimizer, folder=options.checkpoint_dir if chief else Path(scratch.name)
    )
    average = averaging(strategy)
    start = checkpoint.restore(average)
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
        if chief:
            metrics.tested(epoch, test_sums(network, test_digits), len(test_digits))
    if chief:
        save(network, metrics.metadata(), options.model_dir)
    metrics.say(f"saved the model in {options.model_dir}")
    # A worker that leaves before the chief has saved would look like a failure to the others.
    average(tf.constant(1.0))


def parts_of(strategy: tf.distribute.Strategy) -> dict[str, Any]:
    """Return the counts for the metrics.

    A worker is a process; with several GPUs it has several replicas.
    """
    workers = max(1, len(strategy.cluster_resolver.cluster_spec().as_dict().get("worker", ())))
    replicas = strategy.num_replicas_in_sync
    return {
        "processes": workers,
        "parts": {"workers": workers, **({"replicas": replicas} if replicas != workers else {})},
    }


def averaging(strategy: tf.distribute.Strategy) -> Callable[[tf.Tensor], tf.Tensor]:
    """Return a function that averages what the workers pass.

    It returns when all of them have called it.
    """

    @tf.function
    def average(value: tf.Tensor) -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, strategy.run(lambda: value), axis=None)

    averaged: Callable[[tf.Tensor], tf.Tensor] = average
    return averaged


if __name__ == "__main__":
    main(sys.argv[1:], os.environ)
