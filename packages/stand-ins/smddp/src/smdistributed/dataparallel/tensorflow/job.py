"""This process's place in the job: rank, sizes and mpi4py's communicator.

AWS's TensorFlow library is only ever started by mpirun, so MPI is what carries the data here too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from .. import launch
from ..exceptions import SMDDPConfigurationError


@dataclass(frozen=True)
class Job:
    """One process of a job that was joined."""

    environment: launch.LaunchEnvironment
    communicator: Any | None
    """mpi4py's communicator, kept apart from the script's own MPI calls; None in a world of one
    process.
    """


_current_job: Job | None = None


def init() -> None:
    """Join the job; needed once, before everything else.

    Raise SMDDPConfigurationError if called again, or where no job can be joined.
    """
    global _current_job
    if _current_job is not None:
        raise SMDDPConfigurationError(
            "init() called more than once. smdistributed.dataparallel is already initialized."
        )
    environment = launch.read(os.environ)
    _check_launcher(environment)
    _current_job = Job(environment, _communicator(environment))


def shutdown() -> None:
    """Leave the job, together with all other ranks. Optional at the end of a script."""
    global _current_job
    if _current_job is not None and _current_job.communicator is not None:
        _current_job.communicator.Barrier()
        _current_job.communicator.Free()
    _current_job = None


def size() -> int:
    """Return the number of processes in the job; on AWS each of them has one GPU."""
    return current_job().environment.world_size


def local_size() -> int:
    """Return the number of processes on this host."""
    return current_job().environment.local_world_size


def rank() -> int:
    """Return this process's rank in the job, from 0.

    AWS's reference calls it the rank of the node; it is the process's.
    """
    return current_job().environment.rank


def local_rank() -> int:
    """Return this process's rank on its host, from 0."""
    return current_job().environment.local_rank


def get_worker_comm() -> Any:
    """Return mpi4py's communicator of all ranks.

    AWS's reference lacks it, but AWS's published scripts gather objects with it.
    """
    communicator = current_job().communicator
    if communicator is not None:
        return communicator
    from mpi4py import MPI

    return MPI.COMM_SELF


def current_job() -> Job:
    """Return the job. Raise SMDDPConfigurationError before init()."""
    if _current_job is None:
        raise SMDDPConfigurationError(
            "smdistributed.dataparallel is not initialized: call init() first"
        )
    return _current_job


def _check_launcher(environment: launch.LaunchEnvironment) -> None:
    if environment.launcher is launch.Launcher.MPIRUN:
        return
    if environment.strict or environment.world_size > 1:
        raise SMDDPConfigurationError(
            "smddp for TensorFlow needs mpirun: start the script with mpirun and smddprun"
        )


def _communicator(environment: launch.LaunchEnvironment) -> Any | None:
    if environment.world_size == 1:
        return None
    from mpi4py import MPI

    # TensorFlow runs a collective on whichever of its threads is free.
    if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
        raise SMDDPConfigurationError(
            "MPI was initialised without threads: leave mpi4py's default thread level alone"
        )
    return MPI.COMM_WORLD.Dup()
