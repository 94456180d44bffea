"""What every part of the stand-in has."""

from .job import (
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
from .objects import allgather_object, broadcast_object
from .reduction import Adasum, Average, Max, Min, Sum

__all__ = [
    "Adasum",
    "Average",
    "Max",
    "Min",
    "Sum",
    "allgather_object",
    "broadcast_object",
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
