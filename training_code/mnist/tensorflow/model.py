"""The digits, the network, and the model that is saved.

A saved model is a folder with `1/` (a SavedModel, where TensorFlow Serving looks for it),
`model.json` (where it comes from) and `code/inference.py` (which serves it).
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from common.mnist_files import SIDE, read_digits
from common.served import complete_model

# Keras 3's optimizers have no variables() to broadcast; TensorFlow reads this when tf.keras is
# first used.
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

PIXEL_MEAN, PIXEL_STD = 0.1307, 0.3081
"""Of MNIST's training pixels, scaled to 0..1."""
VERSION = "1"
"""The folder of the SavedModel. TensorFlow Serving serves the one with the highest number."""


def read(folder: Path, prefix: str) -> tuple[Any, Any]:
    """Return images, uint8 (N, 28, 28), and labels, int64 (N,), of train or t10k; or ValueError."""
    pixels, labels = (np.frombuffer(each, np.uint8) for each in read_digits(folder, prefix))
    return pixels.reshape(-1, SIDE, SIDE), labels.astype(np.int64)


def new_network(seed: int, precision: str = "fp32") -> tf.keras.Sequential:
    """Return the network from uint8 images (N, 28, 28) to logits (N, 10), 214,000 weights.

    Equal seeds give equal weights, in every process. Weights and logits are float32 in bf16 too.
    """
    policy, layers = "mixed_bfloat16" if precision == "bf16" else "float32", tf.keras.layers
    tf.keras.mixed_precision.set_global_policy(policy)
    first = [tf.keras.initializers.GlorotUniform(seed=seed * 10 + layer) for layer in range(4)]
    # Pooling before relu gives the same result with a quarter of the work.
    return tf.keras.Sequential(
        [
            layers.InputLayer((SIDE, SIDE), dtype=tf.uint8),
            layers.Reshape((SIDE, SIDE, 1)),
            layers.Rescaling(1 / (255 * PIXEL_STD), -PIXEL_MEAN / PIXEL_STD, dtype="float32"),
            layers.Conv2D(24, 5, kernel_initializer=first[0]),
            layers.MaxPool2D(),
            layers.ReLU(),
            layers.Conv2D(32, 3, kernel_initializer=first[1]),
            layers.MaxPool2D(),
            layers.ReLU(),
            layers.Flatten(),
            layers.Dense(256, activation="relu", kernel_initializer=first[2]),
            layers.Dense(10, kernel_initializer=first[3], dtype="float32"),
        ]
    )


def save(network: tf.keras.Sequential, metadata: dict[str, Any], folder: Path) -> None:
    """Write the model, its metadata and the code that serves it into `folder`.

    Raise ValueError if the last step, after the last loss, has spoilt the weights.
    """
    if not all(np.isfinite(each).all() for each in network.get_weights()):
        raise ValueError(
            "the weights are not finite, no model is saved: try a smaller --learning-rate"
        )

    @tf.function(input_signature=[tf.TensorSpec((None, SIDE, SIDE), tf.uint8, name="images")])
    def serve(images: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"probabilities": tf.nn.softmax(network(images))}

    partial = folder / f"{VERSION}.partial"
    tf.saved_model.save(network, str(partial), signatures={"serving_default": serve})
    shutil.rmtree(folder / VERSION, ignore_errors=True)
    # Whole or not at all: SageMaker may pack the folder of a job that is killed now.
    partial.rename(folder / VERSION)
    made_by = {**metadata, "tensorflow": tf.__version__}
    complete_model(folder, made_by, Path(__file__).parent, ["inference.py"])
