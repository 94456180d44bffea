"""Collectives over tensors, and the gradient tape and the optimizer that a training script wraps,
with Horovod's arguments.
"""

import functools
from collections.abc import Iterable
from typing import Any

import tensorflow as tf
from shoal_stand_ins.tensorflow.training import (
    Compression,
    GradientTape,
    Reduce,
    assign_broadcast,
    broadcast_all,
    reduce_all,
    wrap,
)

from horovod.common import JOB, Average, ReduceOp, choose


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
    return reduce_all(JOB, [tensor], choose(op, average), compression)[0]


def broadcast(tensor: Any, root_rank: int, name: str | None = None) -> Any:
    """Return rank `root_rank`'s tensor, on every rank."""
    del name
    return broadcast_all(JOB, [tf.convert_to_tensor(tensor)], root_rank)[0]


def broadcast_variables(variables: Iterable[Any], root_rank: int) -> Any:
    """Give every rank the values that rank `root_rank` has in these variables."""
    return tf.group(*assign_broadcast(JOB, variables, root_rank))


class DistributedGradientTape(GradientTape):
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
        super().__init__(gradtape, _reduction(op, compression))


def DistributedOptimizer(  # noqa: N802 - Horovod's name
    optimizer: Any,
    name: str | None = None,
    compression: Any = Compression.none,
    op: ReduceOp = Average,
) -> Any:
    """Return the same optimizer; it reduces gradients over all ranks before it applies them.

    `name` is Horovod's and changes nothing.
    """
    del name
    return wrap(optimizer, _reduction(op, compression))


def _reduction(op: ReduceOp, compression: Any) -> Reduce:
    return functools.partial(reduce_all, JOB, op=choose(op), compression=compression)
