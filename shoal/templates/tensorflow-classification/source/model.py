"""The network and its loss: this file is yours. Change `table.py` with it."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from table import CLASSES

LOSS = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def new_network(rows: Any, targets: Any) -> tf.keras.Model:
    """Return a network from rows float32 (N, features) to logits float32 (N, classes); it keeps the
    scale of the rows.
    """
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.InputLayer((rows.shape[1],)),
            layers.Normalization(mean=rows.mean(0), variance=rows.var(0)),
            layers.Dense(32, activation="relu"),
            layers.Dense(len(CLASSES)),
        ]
    )
