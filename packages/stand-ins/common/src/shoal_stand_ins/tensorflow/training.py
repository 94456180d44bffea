"""The gradient tape, the optimizer and the callbacks that a training script uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import tensorflow as tf

from ..job import Job
from .collectives import assign_broadcast

Reduce = Callable[[Sequence[Any]], Any]
"""Reduces a list of gradients over all ranks."""


class GradientTape:
    """A tf.GradientTape whose gradient() reduces over all ranks."""

    def __init__(self, tape: Any, reduce: Reduce) -> None:
        self._tape = tape
        self._reduce = reduce

    def gradient(
        self, target: Any, sources: Any, output_gradients: Any = None, **options: Any
    ) -> Any:
        """Return the gradient of `target`, reduced over all ranks.

        It has the structure of `sources`.
        """
        return _reduce_present(
            self._reduce, self._tape.gradient(target, sources, output_gradients, **options)
        )

    def __enter__(self) -> GradientTape:
        self._tape.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._tape.__exit__(kind, error, traceback)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tape, name)


def wrap(optimizer: Any, reduce: Reduce) -> Any:
    """Return the same optimizer; it reduces gradients over all ranks before it applies them.

    Takes optimizers of tf.compat.v1.train and of Keras.
    """
    own = type(optimizer)
    # The class keeps its name, so a saved model loads where this package is not installed.
    optimizer.__class__ = type(
        own.__name__, (own,), {"__module__": own.__module__, **_overrides(own, reduce)}
    )
    return optimizer


def _overrides(own: Any, reduce: Reduce) -> dict[str, Any]:
    """Return the method that all gradients pass, with the reduction in front."""
    if issubclass(own, tf.compat.v1.train.Optimizer):

        def compute_gradients(self: Any, *arguments: Any, **options: Any) -> Any:
            return _reduce_pairs(reduce, own.compute_gradients(self, *arguments, **options))

        return {"compute_gradients": compute_gradients}
    if hasattr(own, "apply"):  # Keras 3: apply_gradients calls it

        def apply(self: Any, grads: Any, *arguments: Any, **options: Any) -> Any:
            return own.apply(self, _reduce_present(reduce, list(grads)), *arguments, **options)

        return {"apply": apply}

    def apply_gradients(self: Any, grads_and_vars: Any, *arguments: Any, **options: Any) -> Any:
        return own.apply_gradients(
            self, _reduce_pairs(reduce, grads_and_vars), *arguments, **options
        )

    return {"apply_gradients": apply_gradients}


def _reduce_pairs(reduce: Reduce, pairs: Any) -> list[Any]:
    pairs = list(pairs)
    gradients = _reduce_present(reduce, [gradient for gradient, _ in pairs])
    return [(gradient, variable) for gradient, (_, variable) in zip(gradients, pairs, strict=True)]


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator, unused-ignore] # untyped where TensorFlow is not installed
def _reduce_present(reduce: Reduce, gradients: Any) -> Any:
    """Reduce all gradients in one operation; None (not connected) stays None."""
    leaves = tf.nest.flatten(gradients)
    present = [index for index, leaf in enumerate(leaves) if leaf is not None]
    for index, reduced in zip(present, reduce([leaves[index] for index in present]), strict=True):
        leaves[index] = reduced
    return tf.nest.pack_sequence_as(gradients, leaves)


class BroadcastCallback(tf.keras.callbacks.Callback):  # type: ignore[misc, unused-ignore]
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
