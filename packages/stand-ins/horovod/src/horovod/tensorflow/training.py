"""The gradient tape and the optimizer that a training script wraps, with Horovod's arguments."""

from __future__ import annotations

import functools
from typing import Any

from shoal_stand_ins.tensorflow.collectives import reduce_all
from shoal_stand_ins.tensorflow.compression import Compression
from shoal_stand_ins.tensorflow.training import GradientTape, Reduce, wrap

from ..common import JOB, Average, ReduceOp, choose


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
