"""The recipe that Horovod's and smddp's TensorFlow 2 guides share, for either module."""

from typing import Any

import numpy as np
import tensorflow as tf
from mpi4py import MPI

generator = np.random.default_rng(0)
inputs, targets = (
    generator.standard_normal((32, 20), np.float32),
    generator.standard_normal((32, 3), np.float32),
)


def follow(api: Any) -> dict[str, Any]:
    """Train a model, from which ranks start apart, with the gradient tape, then the optimizer."""
    rank, size = api.rank(), api.size()
    rows = slice(rank * 32 // size, (rank + 1) * 32 // size)
    tf.keras.utils.set_random_seed(rank)
    model = tf.keras.Sequential(
        [
            tf.keras.Input((20,)),
            tf.keras.layers.Dense(16, activation="relu"),
            tf.keras.layers.Dense(3),
        ]
    )
    optimizer = tf.keras.optimizers.Adam(0.01 * size)
    api.broadcast_variables(model.variables, root_rank=0)
    weights = model.trainable_variables
    whole_loss, whole_gradients = loss_and_gradients(model, slice(None))

    @tf.function  # type: ignore[untyped-decorator, unused-ignore] # untyped where TensorFlow is not installed
    def step(images: tf.Tensor, labels: tf.Tensor, first_batch: bool) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(images, training=True) - labels) ** 2)
        tape = api.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, weights)
        optimizer.apply_gradients(zip(gradients, weights, strict=True))
        if first_batch:
            api.broadcast_variables(model.variables, root_rank=0)
            api.broadcast_variables(optimizer.variables(), root_rank=0)
        return loss, gradients

    loss, gradients = step(inputs[rows], targets[rows], True)
    for _ in range(4):
        step(inputs[rows], targets[rows], False)
    answer = {
        "gradient_error": max(
            float(tf.reduce_max(tf.abs(a - b)))
            for a, b in zip(gradients, whole_gradients, strict=True)
        ),
        "loss_error": abs(float(averaged(api, loss)) - float(whole_loss)),
        "ranks_equal": ranks_equal(weights),
    }
    distributed = api.DistributedOptimizer(tf.keras.optimizers.SGD(0.1))
    for _ in range(2):
        distributed.apply_gradients(zip(loss_and_gradients(model, rows)[1], weights, strict=True))
    return answer | {"ranks_equal_after_optimizer": ranks_equal(weights)}


def loss_and_gradients(model: Any, part: slice) -> tuple[Any, Any]:
    """Return loss and gradients of a part of the batch, in this process alone."""
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(inputs[part]) - targets[part]) ** 2)
    return loss, tape.gradient(loss, model.trainable_variables)


def averaged(api: Any, value: Any) -> Any:
    """Average a value that is not a gradient; smddp has a function of its own for it."""
    return api.oob_allreduce(value) if hasattr(api, "oob_allreduce") else api.allreduce(value)


def ranks_equal(weights: Any) -> bool:
    """Return whether all ranks hold the same bits; MPI says so, not the library under test."""
    everyones = MPI.COMM_WORLD.allgather([weight.numpy().tobytes() for weight in weights])
    return all(each == everyones[0] for each in everyones)
