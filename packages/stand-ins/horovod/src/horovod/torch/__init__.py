"""The PyTorch part of the stand-in: `import horovod.torch as hvd`."""

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
from .collectives import (
    allgather,
    allreduce,
    allreduce_,
    barrier,
    broadcast,
    broadcast_,
    grouped_allreduce,
)
from .compression import Compression
from .optimizer import DistributedOptimizer
from .state import broadcast_optimizer_state, broadcast_parameters

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "Max",
    "Min",
    "Sum",
    "allgather",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "gloo_built",
    "grouped_allreduce",
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
