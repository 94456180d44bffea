"""Train a digit classifier on MNIST with Horovod: idx files and hyperparameters come in, a model
folder goes out.

    mpirun -np 8 python -m mpi4py train_horovod.py ...        (what SageMaker's toolkit runs)

What differs from train.py is Horovod's recipe: one device per rank, gradients averaged by
DistributedGradientTape, equal first weights by broadcast_variables, other values averaged by
allreduce, rank 0 saves.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

import horovod.tensorflow as hvd
import tensorflow as tf
from checkpoint import Checkpoint
from data import batches, read_test, read_train
from devices import pin
from metrics import Metrics
from model import mean_loss, new_network, new_optimizer, save, test_sums
from plan import Plan, parse_options


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """One rank's whole run."""
    options = parse_options(arguments, environ)
    hvd.init()
    pin(hvd.local_rank(), hvd.local_size())
    tf.config.experimental.enable_op_determinism()
    digits, test_digits = read_train(options.train_dir), read_test(options.test_dir)
    plan = Plan(options, len(digits), replicas=hvd.size())
    metrics = Metrics(plan, "horovod", printing=hvd.rank() == 0)
    network, optimizer = new_network(plan.seed), new_optimizer(plan.learning_rates)
    checkpoint = Checkpoint(
        plan, network, optimizer, folder=options.checkpoint_dir if hvd.rank() == 0 else None
    )
    start = checkpoint.restore(hvd.allreduce)
    metrics.resumed(start)

    @tf.function
    def train_step(images: tf.Tensor, labels: tf.Tensor, first_batch: bool) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = mean_loss(network, images, labels)
        tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables))
        if first_batch:  # after the first update, because the optimizer makes its variables there
            hvd.broadcast_variables(network.variables, root_rank=0)
            hvd.broadcast_variables(optimizer.variables(), root_rank=0)
        return hvd.allreduce(loss)

    first_batch = True
    for epoch, done in plan.epochs(start):
        for step, (images, labels) in enumerate(
            batches(digits, plan, epoch, done, hvd.rank(), hvd.size()), start=done + 1
        ):
            loss = train_step(images, labels, first_batch)
            first_batch = False
            if metrics.due(step):
                metrics.trained(epoch, step, float(loss))
            if checkpoint.after(step):
                sys.exit(metrics.stopped(epoch, step))
        mean_sums = hvd.allreduce(test_sums(network, test_digits.share(hvd.rank(), hvd.size())))
        metrics.tested(epoch, mean_sums * hvd.size(), len(test_digits))
    if hvd.rank() == 0:
        save(network, metrics.metadata(), options.model_dir)
    metrics.say(f"saved the model in {options.model_dir}")


if __name__ == "__main__":
    main(sys.argv[1:], os.environ)
