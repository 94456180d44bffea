"""The network and its loss: this file is yours. Change `table.py` with it."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

LOSS = "mse"


def new_network(rows: Any, targets: Any) -> tf.keras.Model:
    """Return a network from rows float32 (N, features) to numbers float32 (N, 1); it keeps the
    scale of both.
    """
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.InputLayer((rows.shape[1],)),
            layers.Normalization(mean=rows.mean(0), variance=rows.var(0)),
            layers.Dense(32, activation="relu"),
            layers.Dense(1),
            layers.Rescaling(float(targets.std()), float(targets.mean())),
        ]
    )
