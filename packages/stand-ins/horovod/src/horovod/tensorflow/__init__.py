"""The TensorFlow part of the stand-in: `import horovod.tensorflow as hvd`."""

from ..job import (
    gloo_built,
    init,
    is_initialized,
    local_rank,
    local_size,
    mpi_built,
    nccl_built,
    rank,
    shutdown,
    size,
)
from ..objects import allgather_object, broadcast_object
from ..reduction import Adasum, Average, Max, Min, Sum
from .collectives import allreduce, broadcast, broadcast_variables
from .compression import Compression
from .training import DistributedGradientTape, DistributedOptimizer

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "Max",
    "Min",
    "Sum",
    "allgather_object",
    "allreduce",
    "broadcast",
    "broadcast_object",
    "broadcast_variables",
    "gloo_built",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "mpi_built",
    "nccl_built",
    "rank",
    "shutdown",
    "size",
]
