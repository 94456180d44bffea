"""Collectives over tensors, with Horovod's arguments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf
from shoal_stand_ins.tensorflow.collectives import assign_broadcast, broadcast_all, reduce_all
from shoal_stand_ins.tensorflow.compression import Compression

from ..common import JOB, ReduceOp, choose


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
