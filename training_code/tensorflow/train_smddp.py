"""Train a digit classifier on MNIST with SageMaker's data parallel library: idx files and
hyperparameters in, a model folder out.

    mpirun -np 8 smddprun python -m mpi4py train_smddp.py ...        (what SageMaker's toolkit runs)

What differs from train.py is the recipe of AWS's documentation for TensorFlow 2: one device per
rank, gradients averaged by DistributedGradientTape, equal first weights by broadcast_variables,
other values averaged by oob_allreduce, rank 0 saves. The documentation also multiplies the learning
rate by size(), because its batch is per rank; see Plan.peak_learning_rate.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

import smdistributed.dataparallel.tensorflow as sdp
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
    sdp.init()
    pin(sdp.local_rank(), sdp.local_size())
    tf.config.experimental.enable_op_determinism()
    digits, test_digits = read_train(options.train_dir), read_test(options.test_dir)
    plan = Plan(options, len(digits), replicas=sdp.size())
    metrics = Metrics(plan, "smddp", printing=sdp.rank() == 0)
    network, optimizer = new_network(plan.seed), new_optimizer(plan.learning_rates)
    checkpoint = Checkpoint(
        plan, network, optimizer, folder=options.checkpoint_dir if sdp.rank() == 0 else None
    )
    start = checkpoint.restore(sdp.oob_allreduce)
    metrics.resumed(start)

    @tf.function
    def train_step(images: tf.Tensor, labels: tf.Tensor, first_batch: bool) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = mean_loss(network, images, labels)
        tape = sdp.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables))
        if first_batch:  # after the first update, because the optimizer makes its variables there
            sdp.broadcast_variables(network.variables, root_rank=0)
            sdp.broadcast_variables(optimizer.variables(), root_rank=0)
        return sdp.oob_allreduce(loss)

    first_batch = True
    for epoch, done in plan.epochs(start):
        for step, (images, labels) in enumerate(
            batches(digits, plan, epoch, done, sdp.rank(), sdp.size()), start=done + 1
        ):
            loss = train_step(images, labels, first_batch)
            first_batch = False
            if metrics.due(step):
                metrics.trained(epoch, step, float(loss))
            if checkpoint.after(step):
                sys.exit(metrics.stopped(epoch, step))
        mean_sums = sdp.oob_allreduce(test_sums(network, test_digits.share(sdp.rank(), sdp.size())))
        metrics.tested(epoch, mean_sums * sdp.size(), len(test_digits))
    if sdp.rank() == 0:
        save(network, metrics.metadata(), options.model_dir)
    metrics.say(f"saved the model in {options.model_dir}")


if __name__ == "__main__":
    main(sys.argv[1:], os.environ)
