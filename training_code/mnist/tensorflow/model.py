"""The network, its preprocessing and its file format, for training and evaluation.

It turns uint8 images (N, 28, 28) into logits or probabilities (N, 10). A saved model is a folder
with `1/` (a SavedModel, where TensorFlow Serving looks for it), `model.json` (where it comes from)
and `code/inference.py` (which serves it).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from common.archive import save_code
from common.evaluation import METADATA_FILE
from common.mnist_files import SIDE
from data import Digits

# Keras 3's optimizers have no variables() to broadcast; TensorFlow reads this when tf.keras is
# first used.
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

# Mean and standard deviation of MNIST's training pixels, scaled to 0..1.
PIXEL_MEAN = 0.1307
PIXEL_STD = 0.3081

TEST_BATCH = 1000
VERSION = "1"
"""The folder of the SavedModel. TensorFlow Serving serves the one with the highest number."""


def new_network(seed: int) -> tf.keras.Sequential:
    """Return two convolutions and two dense layers, 214,000 weights.

    Equal seeds give equal weights, in every process.
    """
    layers = tf.keras.layers
    first = [tf.keras.initializers.GlorotUniform(seed=seed * 10 + layer) for layer in range(4)]
    # Pooling before relu gives the same result with a quarter of the work.
    return tf.keras.Sequential(
        [
            layers.InputLayer((SIDE, SIDE, 1)),
            layers.Conv2D(24, 5, kernel_initializer=first[0]),
            layers.MaxPool2D(),
            layers.ReLU(),
            layers.Conv2D(32, 3, kernel_initializer=first[1]),
            layers.MaxPool2D(),
            layers.ReLU(),
            layers.Flatten(),
            layers.Dense(256, activation="relu", kernel_initializer=first[2]),
            layers.Dense(10, kernel_initializer=first[3]),
        ]
    )


class Rates(tf.keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc, unused-ignore] # untyped without TensorFlow
    """The learning rate of every step, by the optimizer's own count of steps, so that every process
    that applies a step uses the same rate.
    """

    def __init__(self, rates: Sequence[float]) -> None:
        self._rates = [float(rate) for rate in rates]

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """Return the rate of the step after `step` steps."""
        index = tf.minimum(tf.cast(step, tf.int32), len(self._rates) - 1)
        return tf.gather(tf.constant(self._rates, tf.float32), index)

    def get_config(self) -> dict[str, Any]:
        """Return the settings, as Keras requires of a schedule."""
        return {"rates": self._rates}


def new_optimizer(rates: Sequence[float]) -> tf.keras.optimizers.Optimizer:
    """Return an Adam that takes one step at each of the rates."""
    return tf.keras.optimizers.Adam(Rates(rates))


def prepare(images: tf.Tensor) -> tf.Tensor:
    """Turn uint8 images (N, 28, 28) into the network's input, float32 (N, 28, 28, 1)."""
    return (tf.cast(images, tf.float32)[..., tf.newaxis] / 255 - PIXEL_MEAN) / PIXEL_STD


def losses(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Return the cross-entropy of each image (N,)."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def test_sums(network: tf.keras.Sequential, digits: Digits) -> tf.Tensor:
    """Return the sum of the losses over `digits` and the number of correct answers.

    float32 (2,), which ranks can add up.
    """
    pairs = tf.data.Dataset.from_tensor_slices((digits.images, digits.labels)).batch(TEST_BATCH)
    return tf.add_n([_batch_sums(network, images, labels) for images, labels in pairs])


@tf.function
def _batch_sums(network: tf.keras.Sequential, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    logits = network(prepare(images))
    right = tf.cast(tf.argmax(logits, axis=1) == labels, tf.float32)
    return tf.stack([tf.reduce_sum(losses(logits, labels)), tf.reduce_sum(right)])


def save(network: tf.keras.Sequential, metadata: dict[str, Any], folder: Path) -> None:
    """Write the model, its metadata and the code that serves it into `folder`.

    SageMaker packs the folder into model.tar.gz. Raise ValueError if the last step, after the last
    loss, has spoilt the weights.
    """
    if not all(np.isfinite(each).all() for each in network.get_weights()):
        raise ValueError(
            "the weights are not finite, no model is saved: try a smaller --learning-rate"
        )

    @tf.function(input_signature=[tf.TensorSpec((None, SIDE, SIDE), tf.uint8, name="images")])
    def serve(images: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"probabilities": tf.nn.softmax(network(prepare(images)))}

    partial = folder / f"{VERSION}.partial"
    tf.saved_model.save(network, str(partial), signatures={"serving_default": serve})
    shutil.rmtree(folder / VERSION, ignore_errors=True)
    # Whole or not at all: SageMaker may pack the folder of a job that is killed now.
    partial.rename(folder / VERSION)
    text = json.dumps({**metadata, "tensorflow": tf.__version__}, indent=2, sort_keys=True)
    (folder / METADATA_FILE).write_text(text + "\n")
    save_code(folder, Path(__file__).parent, ["inference.py"])


def load(folder: Path) -> Callable[[Any], Any]:
    """Return the function of a saved model from images, uint8 (N, 28, 28), to probabilities,
    float32 (N, 10). Raise ValueError if the folder holds no model of ours.
    """
    for name in (f"{VERSION}/saved_model.pb", METADATA_FILE):
        if not (folder / name).is_file():
            raise ValueError(f"{folder} holds no model: {name} is missing")
    versions = [each.name for each in folder.iterdir() if each.name.isdigit()]
    if len(versions) > 1:
        raise ValueError(
            f"{folder} holds versions {', '.join(sorted(versions))}: which one serves?"
        )
    try:
        loaded = tf.saved_model.load(str(folder / VERSION))
        serve = loaded.signatures["serving_default"]
    except (tf.errors.OpError, OSError, ValueError, KeyError) as error:
        raise ValueError(f"{folder} holds a damaged model: {error}") from error
    return lambda images: serve(images=tf.constant(images))["probabilities"].numpy()
