"""Callbacks for `model.fit`.

They have a module of their own because it loads Keras: a script chooses which Keras before.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from shoal_stand_ins.job import Job
from shoal_stand_ins.tensorflow.training import assign_broadcast


class BroadcastCallback(tf.keras.callbacks.Callback):  # type: ignore[misc, unused-ignore] # untyped where TensorFlow is not installed
    """Gives every rank the weights and the optimizer's state of rank `root_rank`, after the first
    batch: the state exists then.
    """

    def __init__(self, job: Job, root_rank: int) -> None:
        super().__init__()
        self._job = job
        self._root_rank = root_rank
        self._done = False

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Broadcast once."""
        if self._done:
            return
        state = self.model.optimizer.variables
        assign_broadcast(self._job, self.model.variables, self._root_rank)
        assign_broadcast(self._job, state() if callable(state) else state, self._root_rank)
        self._done = True


class MetricCallback(tf.keras.callbacks.Callback):  # type: ignore[misc, unused-ignore]
    """Replaces each metric of an epoch by its average over all ranks.

    Put it before callbacks that read metrics.
    """

    def __init__(self, average: Callable[[Any], Any]) -> None:
        super().__init__()
        self._average = average

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Average in the order of the metrics' names, which is the same on every rank."""
        for name in sorted(logs or {}):
            logs[name] = float(self._average(tf.constant(logs[name], dtype=tf.float64)))
