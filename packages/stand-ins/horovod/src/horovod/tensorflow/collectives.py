"""Collectives over tensors.

Each is one stateful operation, so tf.function keeps them in the script's order on every rank.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from .. import transport
from ..errors import HorovodLocalError
from ..job import current_job
from ..reduction import ReduceOp, choose
from .compression import Compression


def allreduce(
    tensor: Any,
    average: bool | None = None,
    compression: Any = Compression.none,
    op: ReduceOp | None = None,
    name: str | None = None,
) -> Any:
    """Return the reduction over all ranks, the average by default; same shape and type.

    `name` is Horovod's and changes nothing.
    """
    del name
    return reduce_all([tensor], choose(op, average), compression)[0]


def broadcast(tensor: Any, root_rank: int, name: str | None = None) -> Any:
    """Return rank `root_rank`'s tensor, on every rank."""
    del name
    return _broadcast_all([tf.convert_to_tensor(tensor)], root_rank)[0]


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator, unused-ignore] # untyped where TensorFlow is not installed
def broadcast_variables(variables: Iterable[Any], root_rank: int) -> Any:
    """Give every rank the values that rank `root_rank` has in these variables."""
    variables = list(variables)
    values = _broadcast_all([tf.convert_to_tensor(variable) for variable in variables], root_rank)
    return tf.group(
        *[variable.assign(value) for variable, value in zip(variables, values, strict=True)]
    )


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator, unused-ignore]
def reduce_all(tensors: Sequence[Any], op: ReduceOp, compression: Any) -> list[Any]:
    """Return each tensor reduced over all ranks, all of them in one operation."""
    communicator = current_job().communicator
    tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
    if communicator is None or not tensors:
        return tensors
    sent = [compression.compress(tensor) for tensor in tensors]
    received = _as_one_operation(
        functools.partial(_allreduce_arrays, communicator, op), [tensor for tensor, _ in sent]
    )
    return [
        compression.decompress(tensor, context)
        for tensor, (_, context) in zip(received, sent, strict=True)
    ]


def _broadcast_all(tensors: list[Any], root_rank: int) -> list[Any]:
    job = current_job()
    if not 0 <= root_rank < job.size:
        raise HorovodLocalError(f"root_rank={root_rank} is no rank of a job of {job.size}")
    if job.communicator is None or not tensors:
        return tensors
    return _as_one_operation(
        functools.partial(_broadcast_arrays, job.communicator, root_rank), tensors
    )


def _as_one_operation(function: Callable[..., Any], tensors: list[Any]) -> list[Any]:
    results = tf.numpy_function(
        function, tensors, [tensor.dtype for tensor in tensors], stateful=True
    )
    results = list(results) if isinstance(results, list | tuple) else [results]
    for result, tensor in zip(results, tensors, strict=True):
        result.set_shape(tensor.shape)  # numpy_function forgets it
    return results


def _allreduce_arrays(communicator: Any, op: ReduceOp, *arrays: Any) -> list[Any]:
    return transport.allreduce(communicator, op, arrays)


def _broadcast_arrays(communicator: Any, root_rank: int, *arrays: Any) -> list[Any]:
    return transport.broadcast(communicator, root_rank, arrays)
