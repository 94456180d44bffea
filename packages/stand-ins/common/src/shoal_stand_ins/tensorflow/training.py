"""Collectives over tensors, the gradient tape and the optimizer that a training script wraps, and
how gradients travel: as they are, or in 16 bits.

Each collective is one stateful operation, so tf.function keeps them in the script's order on
every rank.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from types import TracebackType
from typing import Any

import tensorflow as tf

from shoal_stand_ins import transport
from shoal_stand_ins.job import Job
from shoal_stand_ins.transport import FP16Compressor, NoneCompressor


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator, unused-ignore] # untyped where TensorFlow is not installed
def reduce_all(job: Job, tensors: Sequence[Any], op: Enum, compression: Any) -> list[Any]:
    """Return each tensor reduced over all ranks, all of them in one operation."""
    communicator = job.communicator
    tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
    if communicator is None or not tensors:
        return tensors
    sent = [compression.compress(tensor) for tensor in tensors]
    received = _as_one_operation(
        functools.partial(transport.allreduce, communicator, op),
        [tensor for tensor, _ in sent],
    )
    return [
        compression.decompress(tensor, context)
        for tensor, (_, context) in zip(received, sent, strict=True)
    ]


def broadcast_all(job: Job, tensors: list[Any], root_rank: int) -> list[Any]:
    """Return rank `root_rank`'s tensors on every rank, all of them in one operation."""
    job.require_rank(root_rank)
    if job.communicator is None or not tensors:
        return tensors
    return _as_one_operation(
        functools.partial(transport.broadcast, job.communicator, root_rank), tensors
    )


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator, unused-ignore]
def assign_broadcast(job: Job, variables: Iterable[Any], root_rank: int) -> list[Any]:
    """Return the operations that give the variables rank `root_rank`'s values.

    In eager mode they have run already.
    """
    variables = list(variables)
    tensors = [tf.convert_to_tensor(variable) for variable in variables]
    values = broadcast_all(job, tensors, root_rank)
    return [variable.assign(value) for variable, value in zip(variables, values, strict=True)]


def _as_one_operation(function: Callable[..., Any], tensors: list[Any]) -> list[Any]:
    results = tf.numpy_function(
        function, tensors, [tensor.dtype for tensor in tensors], stateful=True
    )
    results = list(results) if isinstance(results, list | tuple) else [results]
    for result, tensor in zip(results, tensors, strict=True):
        result.set_shape(tensor.shape)  # numpy_function forgets it
    return results


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

    def __enter__(self) -> "GradientTape":
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


class Compression:
    """The values that `compression` takes."""

    none = NoneCompressor
    fp16 = FP16Compressor(tf.float16, "is_floating", tf.cast)
