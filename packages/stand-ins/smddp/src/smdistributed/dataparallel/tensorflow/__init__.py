"""The API that AWS documents for smdistributed.dataparallel.tensorflow, over MPI.

In strict mode, importing it raises SMDDPConfigurationError where the instance type has no smddp.
"""

import os

from ..instances import check_instance_type
from ..launch import read
from .collectives import (
    allreduce,
    broadcast,
    broadcast_global_variables,
    broadcast_variables,
    oob_allreduce,
    overlap,
)
from .compression import Compression, ReduceOp
from .job import get_worker_comm, init, local_rank, local_size, rank, shutdown, size
from .training import BroadcastGlobalVariablesHook, DistributedGradientTape, DistributedOptimizer

__all__ = [
    "BroadcastGlobalVariablesHook",
    "Compression",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "ReduceOp",
    "allreduce",
    "broadcast",
    "broadcast_global_variables",
    "broadcast_variables",
    "get_worker_comm",
    "init",
    "local_rank",
    "local_size",
    "oob_allreduce",
    "overlap",
    "rank",
    "shutdown",
    "size",
]

check_instance_type(read(os.environ))
