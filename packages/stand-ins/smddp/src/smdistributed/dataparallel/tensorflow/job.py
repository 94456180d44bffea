"""This process's place in the job.

AWS's TensorFlow library is only ever started by mpirun, so MPI is what carries the data here too.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from shoal_stand_ins.job import Job

from .. import launch
from ..exceptions import SMDDPConfigurationError

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
