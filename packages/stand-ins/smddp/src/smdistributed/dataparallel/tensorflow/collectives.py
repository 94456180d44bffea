"""This process's place in the job, and collectives over tensors with the arguments of AWS's
library.

AWS's TensorFlow library is only ever started by mpirun, so MPI is what carries the data here
too. Source of signatures: SageMaker Python SDK documentation, "TensorFlow API" of the
distributed data parallel library.
"""

import functools
import os
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

import tensorflow as tf
from shoal_stand_ins.job import Job
from shoal_stand_ins.tensorflow.training import (
    Compression,
    assign_broadcast,
    broadcast_all,
    reduce_all,
)
from smdistributed.dataparallel import launch
from smdistributed.dataparallel.exceptions import SMDDPConfigurationError, SMDDPUnsupportedError

JOB = Job(
    SMDDPConfigurationError,
    functools.partial(
        SMDDPConfigurationError, "smdistributed.dataparallel is not initialized: call init() first"
    ),
)
shutdown = JOB.shutdown
rank, size = JOB.rank, JOB.size
local_rank, local_size = JOB.local_rank, JOB.local_size


def init() -> None:
    """Join the job; needed once, before everything else.

    Raise SMDDPConfigurationError if called again, or where no job can be joined.
    """
    if JOB.is_initialized():
        raise SMDDPConfigurationError(
            "init() called more than once. smdistributed.dataparallel is already initialized."
        )
    environment = launch.read(os.environ)
    if environment.launcher is not launch.Launcher.MPIRUN and (
        environment.strict or environment.world_size > 1
    ):
        raise SMDDPConfigurationError(
            "smddp for TensorFlow needs mpirun: start the script with mpirun and smddprun"
        )
    JOB.join()


def get_worker_comm() -> Any:
    """Return mpi4py's communicator of all ranks.

    AWS's reference lacks it, but AWS's published scripts gather objects with it.
    """
    communicator = JOB.communicator
    if communicator is not None:
        return communicator
    from mpi4py import MPI

    return MPI.COMM_SELF


class ReduceOp(Enum):
    """The reductions of `allreduce`."""

    AVERAGE = "average"
    SUM = "sum"
    MIN = "min"
    MAX = "max"


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
    return reduce_all(JOB, [tensor], op or ReduceOp.AVERAGE, compression)[0]


def oob_allreduce(
    tensor: Any, compression: Any = Compression.none, op: ReduceOp | None = ReduceOp.AVERAGE
) -> Any:
    """Average a tensor that is not a gradient, such as the loss; same shape and type.

    AWS's reference says that it returns None; its examples use what it returns.
    """
    require_average("oob_allreduce", op)
    return reduce_all(JOB, [tensor], op or ReduceOp.AVERAGE, compression)[0]


def broadcast(tensor: Any, root_rank: int) -> Any:
    """Return rank `root_rank`'s tensor, on every rank."""
    return broadcast_all(JOB, [tf.convert_to_tensor(tensor)], root_rank)[0]


def broadcast_variables(variables: Iterable[Any], root_rank: int) -> None:
    """Give every rank the values that rank `root_rank` has in these variables."""
    assign_broadcast(JOB, variables, root_rank)


def broadcast_global_variables(root_rank: int) -> Any:
    """Return the operation that gives the graph's global variables rank `root_rank`'s values.

    There are none in eager mode.
    """
    if tf.executing_eagerly():
        raise SMDDPUnsupportedError(
            "broadcast_global_variables() does not support eager execution: use"
            " broadcast_variables(model.variables, root_rank=0)"
        )
    return tf.group(*assign_broadcast(JOB, tf.compat.v1.global_variables(), root_rank))


def overlap(tensor: Any) -> Any:
    """Return the tensor as it is: nothing overlaps here.

    On AWS it marks where XLA may start to reduce.
    """
    return tf.identity(tensor)


def require_average(caller: str, op: ReduceOp | None) -> None:
    """Refuse, in strict mode, a reduction that AWS's reference does not list."""
    JOB.size()  # raises before init()
    if launch.read(os.environ).strict and op not in (None, ReduceOp.AVERAGE):
        raise SMDDPUnsupportedError(f"smddp's {caller} supports no op but ReduceOp.AVERAGE")
