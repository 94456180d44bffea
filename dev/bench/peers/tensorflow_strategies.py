"""The same network with TensorFlow's strategies, in a custom loop as in TensorFlow's guide.

    python tensorflow_strategies.py mirrored                       (one process, two logical CPUs)
    TF_CONFIG=... python tensorflow_strategies.py multi_worker     (one process per core)
    python tensorflow_strategies.py plain                          (no strategy)
    mpirun -np 2 smddprun python -m mpi4py tensorflow_strategies.py smddp
                                                                   (a tape that averages)

The images are one array that tf.data batches and shuffles, the recommended way; the step is one
tf.function.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import sys
from typing import Any

from phases import scaling, under_mpirun
from setting import Clock, parse, pin, read, report

KIND = sys.argv.pop(1)
RANK = int(json.loads(os.environ["TF_CONFIG"])["task"]["index"]) if "TF_CONFIG" in os.environ else 0
if KIND == "multi_worker":
    os.environ["LOCAL_RANK"] = str(RANK)
pin()

import numpy as np
import tensorflow as tf

MEAN, STD = 0.1307, 0.3081
REPLICAS = 2 if KIND in {"mirrored", "multi_worker"} else 1
"""Number of replicas over which one process's step is spread."""


def make_strategy() -> tf.distribute.Strategy:
    """Return the strategy that spreads a step over the cores."""
    if KIND == "mirrored":
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * REPLICAS
        )
        tf.config.threading.set_intra_op_parallelism_threads(REPLICAS)
        return tf.distribute.MirroredStrategy([f"CPU:{index}" for index in range(REPLICAS)])
    tf.config.threading.set_intra_op_parallelism_threads(1)
    return (
        tf.distribute.MultiWorkerMirroredStrategy()
        if KIND == "multi_worker"
        else tf.distribute.get_strategy()
    )


def network() -> tf.keras.Sequential:
    """conv 32 - conv 64 - pool - fc 128 - fc 10."""
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Input((28, 28, 1)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dense(10),
        ]
    )


def main() -> None:
    """Run one process."""
    setting = parse()
    sdp: Any = (
        importlib.import_module("smdistributed.dataparallel.tensorflow")
        if KIND == "smddp"
        else None
    )
    if sdp:
        sdp.init()
    rank, size = (sdp.rank(), sdp.size()) if sdp else (RANK, 1)
    strategy = make_strategy()
    tf.keras.utils.set_random_seed(setting.seed)
    images, labels = load(setting.data, "train")
    part = slice(rank if sdp else 0, None, size)
    data = (
        tf.data.Dataset.from_tensor_slices((images[part], labels[part]))
        .shuffle(60000, seed=setting.seed)
        .repeat()
    )
    data = (
        data.batch(setting.batch * REPLICAS, drop_remainder=True)
        .map(normalise)
        .prefetch(tf.data.AUTOTUNE)
    )
    batches = iter(strategy.experimental_distribute_dataset(data))
    with strategy.scope():
        model = network()
        optimizer = tf.keras.optimizers.SGD(0.05, momentum=0.9)
        loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def step(pixels: tf.Tensor, targets: tf.Tensor, communicates: bool) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(
                loss_of(targets, model(pixels, training=True)),
                global_batch_size=setting.batch * REPLICAS,
            )
        averaging = sdp.DistributedGradientTape(tape) if sdp and communicates else tape
        optimizer.apply_gradients(
            zip(
                averaging.gradient(loss, model.trainable_variables),
                model.trainable_variables,
                strict=True,
            )
        )
        return loss

    @tf.function  # type: ignore[untyped-decorator, unused-ignore] # where TensorFlow is not installed
    def distributed_step(pixels: tf.Tensor, targets: tf.Tensor, communicates: bool) -> tf.Tensor:
        losses = strategy.run(step, args=(pixels, targets, communicates))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    def train_step(communicates: bool = True) -> None:
        distributed_step(*next(batches), communicates).numpy()

    train_step()  # the first of the warm-up
    if sdp:  # after the first update, because the optimizer makes its variables there
        sdp.broadcast_variables([*model.variables, *optimizer.variables], root_rank=0)
    if setting.cycles:
        for number in range(setting.warm_up):
            train_step(communicates=number % 2 == 0)
        figures = scaling(under_mpirun(rank, size), train_step, setting.cycles, setting.steps)
    else:
        clock = Clock(
            dataclasses.replace(setting, warm_up=max(0, setting.warm_up - 1)), REPLICAS * size
        )
        for _ in clock.steps():
            train_step()
        pixels, targets = load(setting.data, "t10k")
        figures = {
            "images_per_s": clock.images_per_s,
            "accuracy": test_accuracy(model, pixels[: setting.tested], targets[: setting.tested]),
        }
    if rank == 0:
        report(**figures)


def normalise(pixels: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return float32 (N, 28, 28, 1) of uint8 (N, 28, 28)."""
    return (tf.cast(pixels[..., tf.newaxis], tf.float32) / 255.0 - MEAN) / STD, labels


def load(folder: object, prefix: str) -> tuple[np.ndarray, np.ndarray]:
    """Return images, uint8 (N, 28, 28), and labels, int64 (N,)."""
    pixels, labels, count = read(folder, prefix)  # type: ignore[arg-type]
    return np.frombuffer(pixels, np.uint8).reshape(count, 28, 28), np.frombuffer(
        labels, np.uint8
    ).astype(np.int64)


def test_accuracy(model: tf.keras.Sequential, images: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of the images that the network knows, outside of the strategy."""
    plain = network()
    plain.set_weights(model.get_weights())
    answers = np.concatenate(
        [
            plain(normalise(tf.constant(part), None)[0]).numpy().argmax(1)
            for part in np.array_split(images, 4)
        ]
    )
    return float((answers == labels).mean())


if __name__ == "__main__":
    main()
