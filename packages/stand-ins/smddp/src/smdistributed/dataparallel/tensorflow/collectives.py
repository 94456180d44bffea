"""Collectives over tensors.

Each is one stateful operation, so tf.function keeps them in the script's order on every rank.
Source of signatures: SageMaker Python SDK documentation, "TensorFlow API" of the distributed data
parallel library.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from ..exceptions import SMDDPConfigurationError, SMDDPUnsupportedError
from . import transport
from .compression import Compression, ReduceOp
from .job import current_job


def _also_called_grad(function: Callable[..., Any]) -> Callable[..., Any]:
    """Accept the tensor as `grad` too.

    AWS's own tests call it so, its reference calls it `tensor`.
    """

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        if "grad" in keywords:
            keywords["tensor"] = keywords.pop("grad")
        return function(*arguments, **keywords)

    return call


@_also_called_grad
def allreduce(
    tensor: Any,
    param_index: int,
    num_params: int,
    compression: Any = Compression.none,
    op: ReduceOp | None = ReduceOp.AVERAGE,
) -> Any:
    """Reduce gradient number `param_index` of `num_params` over all ranks; same shape and type.

    Not for other tensors on AWS.
    """
    if not 0 <= param_index < num_params:
        raise SMDDPConfigurationError(
            f"allreduce() got param_index={param_index} of num_params={num_params}: an index from 0"
        )
    return allreduce_all([tensor], compression, op)[0]


def oob_allreduce(
    tensor: Any, compression: Any = Compression.none, op: ReduceOp | None = ReduceOp.AVERAGE
) -> Any:
    """Average a tensor that is not a gradient, such as the loss; same shape and type.

    AWS's reference says that it returns None; its examples use what it returns.
    """
    require_average("oob_allreduce", op)
    return allreduce_all([tensor], compression, op)[0]


def broadcast(tensor: Any, root_rank: int) -> Any:
    """Return rank `root_rank`'s tensor, on every rank."""
    return _broadcast_all([tf.convert_to_tensor(tensor)], root_rank)[0]


def broadcast_variables(variables: Iterable[Any], root_rank: int) -> None:
    """Give every rank the values that rank `root_rank` has in these variables."""
    assign_broadcast(list(variables), root_rank)


def broadcast_global_variables(root_rank: int) -> Any:
    """Return the operation that gives the graph's global variables rank `root_rank`'s values.

    There are none in eager mode.
    """
    if tf.executing_eagerly():
        raise SMDDPUnsupportedError(
            "broadcast_global_variables() does not support eager execution: use"
            " broadcast_variables(model.variables, root_rank=0)"
        )
    return tf.group(*assign_broadcast(tf.compat.v1.global_variables(), root_rank))


def overlap(tensor: Any) -> Any:
    """Return the tensor as it is: nothing overlaps here.

    On AWS it marks where XLA may start to reduce.
    """
    return tf.identity(tensor)


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator, unused-ignore] # untyped where TensorFlow is not installed
def allreduce_all(tensors: Sequence[Any], compression: Any, op: ReduceOp | None) -> list[Any]:
    """Reduce a list of tensors in one operation; None stands for the average."""
    communicator = current_job().communicator
    tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
    if communicator is None or not tensors:
        return tensors
    reduce = functools.partial(_allreduce_arrays, communicator, op or ReduceOp.AVERAGE)
    sent = [compression.compress(tensor) for tensor in tensors]
    received = _as_one_operation(reduce, [tensor for tensor, _ in sent])
    return [
        compression.decompress(tensor, context)
        for tensor, (_, context) in zip(received, sent, strict=True)
    ]


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator, unused-ignore]
def assign_broadcast(variables: list[Any], root_rank: int) -> list[Any]:
    """Return the operations that give the variables rank `root_rank`'s values.

    In eager mode they have run already.
    """
    values = _broadcast_all([tf.convert_to_tensor(variable) for variable in variables], root_rank)
    return [variable.assign(value) for variable, value in zip(variables, values, strict=True)]


def require_average(caller: str, op: ReduceOp | None) -> None:
    """Refuse, in strict mode, a reduction that AWS's reference does not list."""
    if current_job().environment.strict and op not in (None, ReduceOp.AVERAGE):
        raise SMDDPUnsupportedError(f"smddp's {caller} supports no op but ReduceOp.AVERAGE")


def _broadcast_all(tensors: list[Any], root_rank: int) -> list[Any]:
    job = current_job()
    if not 0 <= root_rank < job.environment.world_size:
        raise SMDDPConfigurationError(
            f"root_rank={root_rank} is no rank of a job of {job.environment.world_size}"
        )
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
