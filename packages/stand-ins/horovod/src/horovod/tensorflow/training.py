"""The gradient tape and the Keras optimizer that a training script wraps."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import tensorflow as tf

from ..reduction import Average, ReduceOp, choose
from .collectives import reduce_all
from .compression import Compression


class DistributedGradientTape:
    """A tf.GradientTape whose gradient() reduces over all ranks.

    Sparse gradients are reduced as dense ones.
    """

    def __init__(
        self,
        gradtape: Any,
        compression: Any = Compression.none,
        sparse_as_dense: bool = True,
        op: ReduceOp = Average,
    ) -> None:
        del sparse_as_dense
        self._tape = gradtape
        self._compression = compression
        self._op = choose(op)

    def gradient(
        self, target: Any, sources: Any, output_gradients: Any = None, **options: Any
    ) -> Any:
        """Return the gradient of `target`, reduced over all ranks.

        It has the structure of `sources`.
        """
        return _reduce(
            self._tape.gradient(target, sources, output_gradients, **options),
            self._compression,
            self._op,
        )

    def __enter__(self) -> DistributedGradientTape:
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


def DistributedOptimizer(  # noqa: N802 - Horovod's name
    optimizer: Any,
    name: str | None = None,
    compression: Any = Compression.none,
    op: ReduceOp = Average,
) -> Any:
    """Return the same Keras optimizer; its apply_gradients() reduces over all ranks first.

    `name` is Horovod's and changes nothing.
    """
    del name
    op = choose(op)
    own = type(optimizer)

    def apply(
        self: Any, grads: Any, *arguments: Any, **options: Any
    ) -> Any:  # Keras 3: apply_gradients calls it
        return own.apply(self, _reduce(list(grads), compression, op), *arguments, **options)

    def apply_gradients(self: Any, grads_and_vars: Any, *arguments: Any, **options: Any) -> Any:
        pairs = list(grads_and_vars)
        gradients = _reduce([gradient for gradient, _ in pairs], compression, op)
        return own.apply_gradients(
            self,
            list(zip(gradients, [variable for _, variable in pairs], strict=True)),
            *arguments,
            **options,
        )

    method = {"apply": apply} if hasattr(own, "apply") else {"apply_gradients": apply_gradients}
    # The class keeps its name, so a saved model loads where this package is not installed.
    optimizer.__class__ = type(own.__name__, (own,), {"__module__": own.__module__, **method})
    return optimizer


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator, unused-ignore] # untyped where TensorFlow is not installed
def _reduce(gradients: Any, compression: Any, op: ReduceOp) -> Any:
    """Reduce all gradients in one operation; None (not connected) stays None."""
    leaves = tf.nest.flatten(gradients)
    present = [index for index, leaf in enumerate(leaves) if leaf is not None]
    for index, reduced in zip(
        present, reduce_all([leaves[index] for index in present], op, compression), strict=True
    ):
        leaves[index] = reduced
    return tf.nest.pack_sequence_as(gradients, leaves)
