"""What every part of the stand-in has: this process's place in the job that mpirun started, the
reductions and how functions choose one from `average` and `op`, and Python objects between ranks,
pickled by mpi4py, such as metrics and checkpoints' positions.
"""

import functools
from enum import Enum
from typing import Any

from shoal_stand_ins.job import Job

from .errors import HorovodLocalError, NotInitializedError, UnsupportedError

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

JOB = Job(
    HorovodLocalError,
    functools.partial(NotInitializedError, "Horovod has not been initialized; use hvd.init()."),
)
is_initialized, shutdown = JOB.is_initialized, JOB.shutdown
rank, size = JOB.rank, JOB.size
local_rank, local_size = JOB.local_rank, JOB.local_size


def init() -> None:
    """Join the job. As with Horovod, a second call changes nothing."""
    if not JOB.is_initialized():
        JOB.join()


def mpi_built() -> bool:
    """Return True: MPI carries everything here."""
    return True


def gloo_built() -> bool:
    """Return False: there is no gloo here."""
    return False


def nccl_built() -> int:
    """Return 0: there is no NCCL here."""
    return 0


class ReduceOp(Enum):
    """Horovod's reductions; Adasum is refused where it is used."""

    AVERAGE = "Average"
    SUM = "Sum"
    ADASUM = "Adasum"
    MIN = "Min"
    MAX = "Max"


Average = ReduceOp.AVERAGE
Sum = ReduceOp.SUM
Adasum = ReduceOp.ADASUM
Min = ReduceOp.MIN
Max = ReduceOp.MAX


def choose(op: ReduceOp | None, average: bool | None = None) -> ReduceOp:
    """Return the reduction that a call asks for: `op`, else the older `average`, else Average."""
    if op is not None and average is not None:
        raise ValueError("The op parameter supersedes average. Please provide only one of them.")
    if op is ReduceOp.ADASUM:
        raise UnsupportedError("horovod-local has no Adasum: use Average or Sum")
    if op is not None:
        return op
    return ReduceOp.SUM if average is False else ReduceOp.AVERAGE


def broadcast_object(obj: Any, root_rank: int = 0, name: str | None = None) -> Any:
    """Return rank `root_rank`'s object, on every rank.

    `name` is Horovod's and changes nothing.
    """
    del name
    communicator = JOB.communicator
    return obj if communicator is None else communicator.bcast(obj, root=root_rank)


def allgather_object(obj: Any, name: str | None = None) -> list[Any]:
    """Return every rank's object, in the order of ranks."""
    del name
    communicator = JOB.communicator
    return [obj] if communicator is None else list(communicator.allgather(obj))
