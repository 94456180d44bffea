"""Train a digit classifier on MNIST with asynchronous parameter servers.

    TF_CONFIG='{"cluster": {"master": ["algo-1:2222"],
                            "ps": ["algo-1:2223", "algo-2:2223", "algo-3:2223"],
                            "worker": ["algo-2:2222", "algo-3:2222"]},
                "task": {"type": "worker", "index": 0}}' \\
        python train_parameter_server.py ...        (SageMaker's toolkit, once per host)

The toolkit also starts a parameter server on each host. Unlike in train.py, only the chief runs the
loop below. Its variables lie on the parameter servers, and it schedules each step on a worker that
is free. A worker reads the variables, computes and updates them without waiting for the others, so
no two runs are equal. Workers read their own copies of the files. The chief alone reads and writes
the checkpoint, on its own disk; TensorFlow's default is the disk of each server. Workers and
servers end when the chief has ended.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

import cluster
import tensorflow as tf
from checkpoint import Checkpoint
from data import read_test, read_train, shuffled_records
from metrics import Metrics
from model import build, mean_loss, new_network, new_optimizer, save, test_sums
from plan import Options, Plan, parse_options

CHIEFS_DISK = "/job:chief/replica:0/task:0/device:CPU:0"
"""The task that reads and writes checkpoint files."""

PARTS = {"chiefs": "chief", "parameter_servers": "ps", "workers": "worker"}
"""What each job of the cluster is called in the metrics."""


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run one task: the chief trains, the others serve it."""
    options = parse_options(arguments, environ)
    resolver = cluster.read(environ)
    if resolver.task_type == "chief":
        train(options, resolver)
    else:
        cluster.serve(resolver)


def train(options: Options, resolver: tf.distribute.cluster_resolver.ClusterResolver) -> None:
    """Train, test and save as the chief."""
    cluster.wait_for_servers(resolver.cluster_spec())
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    digits, test_digits = read_train(options.train_dir), read_test(options.test_dir)
    plan = Plan(options, len(digits), replicas=1)  # one update is one worker's batch
    parts = {name: resolver.cluster_spec().num_tasks(job) for name, job in PARTS.items()}
    metrics = Metrics(plan, "parameter_server", processes=sum(parts.values()), parts=parts)
    with strategy.scope():
        network, optimizer = new_network(plan.seed), new_optimizer(plan.learning_rates)
        build(optimizer, network.trainable_variables)
    checkpoint = Checkpoint(
        plan, network, optimizer, folder=options.checkpoint_dir, io_device=CHIEFS_DISK
    )
    start = checkpoint.restore()
    metrics.resumed(start)

    def replica_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = mean_loss(network, images, labels)
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables))
        return loss

    @tf.function
    def train_step(iterator: tf.data.Iterator) -> tf.Tensor:
        return strategy.reduce(
            tf.distribute.ReduceOp.SUM, strategy.run(replica_step, next(iterator)), axis=None
        )

    dataset = coordinator.create_per_worker_dataset(
        lambda: shuffled_records(options.train_dir, plan)
    )
    iterator = iter(dataset)
    for epoch, done in plan.epochs(start):
        for step in range(done + 1, plan.steps_per_epoch + 1):
            loss = coordinator.schedule(train_step, args=(iterator,))
            if metrics.due(step):
                coordinator.join()
                metrics.trained(epoch, step, float(loss.fetch()))
            if checkpoint.after(step):
                sys.exit(metrics.stopped(epoch, step))
        metrics.tested(epoch, test_sums(local_copy(network), test_digits), len(test_digits))
    save(network, metrics.metadata(), options.model_dir)
    metrics.say(f"saved the model in {options.model_dir}")


def local_copy(network: tf.keras.Sequential) -> tf.keras.Sequential:
    """Return the network with its weights fetched from the parameter servers.

    Otherwise they would be fetched once per batch of test images.
    """
    copy = new_network(seed=0)
    copy.set_weights(network.get_weights())
    return copy


if __name__ == "__main__":
    main(sys.argv[1:], os.environ)
