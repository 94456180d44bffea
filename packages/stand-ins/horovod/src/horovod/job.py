"""This process's place in the job: rank, sizes and mpi4py's communicator.

The job is what mpirun started, as in SageMaker, where the training toolkit runs `mpirun ... python
-m mpi4py train.py`. A process that mpirun did not start is a world of one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import HorovodLocalError, NotInitializedError


@dataclass(frozen=True)
class Job:
    """One process of a job that was joined."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    communicator: Any | None
    """mpi4py's communicator, kept apart from the script's own MPI calls; None in a world of one
    process.
    """


_current_job: Job | None = None


def init() -> None:
    """Join the job. As with Horovod, a second call changes nothing."""
    global _current_job
    if _current_job is None:
        _current_job = _join(os.environ)


def shutdown() -> None:
    """Leave the job, together with all other ranks."""
    global _current_job
    if _current_job is not None and _current_job.communicator is not None:
        _current_job.communicator.Barrier()
        _current_job.communicator.Free()
    _current_job = None


def is_initialized() -> bool:
    """Return True between init() and shutdown()."""
    return _current_job is not None


def rank() -> int:
    """Return this process's rank in the job, from 0."""
    return current_job().rank


def size() -> int:
    """Return the number of processes in the job."""
    return current_job().size


def local_rank() -> int:
    """Return this process's rank on its host, from 0."""
    return current_job().local_rank


def local_size() -> int:
    """Return the number of processes on this host."""
    return current_job().local_size


def mpi_built() -> bool:
    """Return True: MPI carries everything here."""
    return True


def gloo_built() -> bool:
    """Return False: there is no gloo here."""
    return False


def nccl_built() -> int:
    """Return 0: there is no NCCL here."""
    return 0


def current_job() -> Job:
    """Return the job. Raise NotInitializedError before init()."""
    if _current_job is None:
        raise NotInitializedError("Horovod has not been initialized; use hvd.init().")
    return _current_job


def _join(environ: Mapping[str, str]) -> Job:
    if int(environ.get("OMPI_COMM_WORLD_SIZE", "1")) == 1:
        return Job(rank=0, size=1, local_rank=0, local_size=1, communicator=None)
    from mpi4py import MPI

    # TensorFlow runs a collective on whichever of its threads is free.
    if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
        raise HorovodLocalError(
            "MPI was initialised without threads: leave mpi4py's default thread level alone"
        )
    communicator = MPI.COMM_WORLD.Dup()
    return Job(
        rank=communicator.Get_rank(),
        size=communicator.Get_size(),
        local_rank=int(environ["OMPI_COMM_WORLD_LOCAL_RANK"]),
        local_size=int(environ["OMPI_COMM_WORLD_LOCAL_SIZE"]),
        communicator=communicator,
    )
