"""Collectives over tensors.

Each is one stateful operation, so tf.function keeps them in the script's order on every rank.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any

import tensorflow as tf

from .. import transport
from ..job import Job


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
