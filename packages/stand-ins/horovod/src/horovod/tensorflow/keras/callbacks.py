"""Callbacks for `model.fit`: rank 0's weights at the start, metrics of all ranks at the end of an
epoch, and a learning rate that grows to its full size.
"""

from typing import Any

import tensorflow as tf
from shoal_stand_ins.tensorflow.callbacks import BroadcastCallback, MetricCallback

from horovod.tensorflow.training import allreduce

from ...common import JOB, size
from ...errors import UnsupportedError


class BroadcastGlobalVariablesCallback(BroadcastCallback):
    """Gives every rank the model's and the optimizer's variables of rank `root_rank`."""

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__(JOB, root_rank)
        del device


class MetricAverageCallback(MetricCallback):
    """Replaces each metric of an epoch by its average over all ranks."""

    def __init__(self, device: str = "") -> None:
        super().__init__(allreduce)
        del device


class LearningRateWarmupCallback(tf.keras.callbacks.Callback):  # type: ignore[misc, unused-ignore] # untyped where TensorFlow is not installed
    """Raises the learning rate from `initial_lr / size` to `initial_lr`, batch by batch, during the
    first epochs (Goyal et al. 2017, "Accurate, Large Minibatch SGD", section 2.2).
    """

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: float = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__()
        self._initial_lr, self._warmup_epochs = initial_lr, warmup_epochs
        self._corrects_momentum = momentum_correction
        self._steps_per_epoch, self._verbose = steps_per_epoch, verbose
        self._epoch = 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Refuse to correct the momentum, which no callback of ours does."""
        momentum = getattr(self.model.optimizer, "momentum", 0)
        if self._corrects_momentum and float(momentum) != 0:
            raise UnsupportedError(
                "LearningRateWarmupCallback here does not correct an optimizer's momentum: pass"
                " momentum_correction=False"
            )
        self._steps_per_epoch = self._steps_per_epoch or self.params.get("steps")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Remember the epoch."""
        self._epoch = epoch

    def on_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Set the learning rate of this batch; the last of the warm-up has all of it."""
        if not self._steps_per_epoch or self._epoch >= self._warmup_epochs:
            return
        epochs = self._epoch + (batch + 1) / self._steps_per_epoch
        share = min(1.0, epochs / self._warmup_epochs)
        rate = self._initial_lr / size() * (1 + share * (size() - 1))
        tf.keras.backend.set_value(self.model.optimizer.learning_rate, rate)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Say when the warm-up is over, if asked."""
        if self._verbose and epoch + 1 == self._warmup_epochs:
            print(f"Epoch {epoch + 1}: finished warm-up to learning rate {self._initial_lr}.")
