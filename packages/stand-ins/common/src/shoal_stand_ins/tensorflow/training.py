"""The gradient tape and the optimizer that a training script wraps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import tensorflow as tf

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
