"""This process's place in the job that mpirun started."""

from __future__ import annotations

import functools

from shoal_stand_ins.job import Job

from .errors import HorovodLocalError, NotInitializedError

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
