"""Callbacks for `model.fit`: rank 0's weights at the start, metrics of all ranks at the end of an
epoch.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ..collectives import broadcast_variables, oob_allreduce


class BroadcastGlobalVariablesCallback(tf.keras.callbacks.Callback):  # type: ignore[misc, unused-ignore] # untyped where TensorFlow is not installed
    """Gives every rank the weights and the optimizer's state of rank `root_rank`, after the first
    batch: the state exists then.
    """

    def __init__(self, root_rank: int) -> None:
        super().__init__()
        self._root_rank = root_rank
        self._done = False

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Broadcast once."""
        if self._done:
            return
        state = self.model.optimizer.variables
        broadcast_variables(self.model.variables, self._root_rank)
        broadcast_variables(state() if callable(state) else state, self._root_rank)
        self._done = True


class MetricAverageCallback(tf.keras.callbacks.Callback):  # type: ignore[misc, unused-ignore]
    """Replaces each metric of an epoch by its average over all ranks.

    Put it before callbacks that read metrics.
    """

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Average in the order of the metrics' names, which is the same on every rank."""
        for name in sorted(logs or {}):
            logs[name] = float(oob_allreduce(tf.constant(logs[name], dtype=tf.float64)))
