"""Train with one process per device, as Horovod and SageMaker's data parallel library do.

What differs from train.py is the recipe that both libraries document: one device per rank,
gradients averaged by DistributedGradientTape, equal first weights by broadcast_variables, other
values averaged by a reduction over all ranks, and rank 0 saves. Both documentations also multiply
the learning rate by size(), because their batch is per rank; see Plan.peak_learning_rate.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from checkpoint import Checkpoint
from data import batches, read_test, read_train
from devices import pin
from metrics import Metrics
from model import mean_loss, new_network, new_optimizer, save, test_sums
from plan import Options, Plan


def train(
    options: Options,
    library: Any,
    *,
    strategy: str,
    average: Callable[[tf.Tensor], tf.Tensor],
) -> None:
    """Train and save as one rank of the job.

    `library` is horovod.tensorflow or smdistributed.dataparallel.tensorflow. `average` is its
    function for tensors that are not gradients, which the two libraries name differently.
    """
    library.init()
    rank, size = library.rank(), library.size()
    pin(library.local_rank(), library.local_size())
    tf.config.experimental.enable_op_determinism()
    digits, test_digits = read_train(options.train_dir), read_test(options.test_dir)
    plan = Plan(options, len(digits), replicas=size)
    metrics = Metrics(plan, strategy, printing=rank == 0)
    network, optimizer = new_network(plan.seed), new_optimizer(plan.learning_rates)
    checkpoint = Checkpoint(
        plan, network, optimizer, folder=options.checkpoint_dir if rank == 0 else None
    )
    start = checkpoint.restore(average)
    metrics.resumed(start)

    @tf.function
    def train_step(images: tf.Tensor, labels: tf.Tensor, first_batch: bool) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = mean_loss(network, images, labels)
        tape = library.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables))
        if first_batch:  # after the first update, because the optimizer makes its variables there
            library.broadcast_variables(network.variables, root_rank=0)
            library.broadcast_variables(optimizer.variables(), root_rank=0)
        return average(loss)

    first_batch = True
    for epoch, done in plan.epochs(start):
        rank_batches = batches(digits, plan, epoch, done, rank, size)
        for step, (images, labels) in enumerate(rank_batches, start=done + 1):
            loss = train_step(images, labels, first_batch)
            first_batch = False
            if metrics.due(step):
                metrics.trained(epoch, step, float(loss))
            if checkpoint.after(step):
                sys.exit(metrics.stopped(epoch, step))
        mean_sums = average(test_sums(network, test_digits.share(rank, size)))
        metrics.tested(epoch, mean_sums * size, len(test_digits))
    if rank == 0:
        save(network, metrics.metadata(), options.model_dir)
    metrics.say(f"saved the model in {options.model_dir}")
