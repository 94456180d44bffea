"""The same network under TensorFlow's MirroredStrategy: one process, two logical CPUs.

A custom loop as in TensorFlow's guide; the images are one array that tf.data batches and shuffles,
the recommended way; the step is one tf.function.
"""

from __future__ import annotations

import dataclasses

from setting import Clock, parse, pin, read, report

pin()

import numpy as np
import tensorflow as tf

REPLICAS = 2
MEAN, STD = 0.1307, 0.3081


def make_strategy() -> tf.distribute.Strategy:
    """Return the strategy that spreads a step over two logical CPUs."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration()] * REPLICAS
    tf.config.set_logical_device_configuration(cpu, logical)
    tf.config.threading.set_intra_op_parallelism_threads(REPLICAS)
    return tf.distribute.MirroredStrategy([f"CPU:{index}" for index in range(REPLICAS)])


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
    strategy = make_strategy()
    tf.keras.utils.set_random_seed(setting.seed)
    images, labels = load(setting.data, "train")
    data = (
        tf.data.Dataset.from_tensor_slices((images, labels))
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

    def step(pixels: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(
                loss_of(targets, model(pixels, training=True)),
                global_batch_size=setting.batch * REPLICAS,
            )
        optimizer.apply_gradients(
            zip(
                tape.gradient(loss, model.trainable_variables),
                model.trainable_variables,
                strict=True,
            )
        )
        return loss

    @tf.function  # type: ignore[untyped-decorator, unused-ignore] # where TensorFlow is not installed
    def distributed_step(pixels: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        losses = strategy.run(step, args=(pixels, targets))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    def train_step() -> None:
        distributed_step(*next(batches)).numpy()

    train_step()  # the first of the warm-up
    warm_up = max(0, setting.warm_up - 1)
    clock = Clock(dataclasses.replace(setting, warm_up=warm_up), REPLICAS)
    for _ in clock.steps():
        train_step()
    pixels, targets = load(setting.data, "t10k")
    accuracy = test_accuracy(model, pixels[: setting.tested], targets[: setting.tested])
    report(images_per_s=clock.images_per_s, accuracy=accuracy)


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
