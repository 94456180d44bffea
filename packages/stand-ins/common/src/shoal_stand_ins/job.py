"""This process's place in the job: rank, sizes and mpi4py's communicator.

The job is what mpirun started, as in SageMaker, where the training toolkit runs `mpirun ... python
-m mpi4py train.py`. A process that mpirun did not start is a world of one.
"""

import os
from collections.abc import Callable
from typing import Any


class Job:
    """The job of a library's stand-in, whose functions are this object's methods."""

    def __init__(self, error: type[Exception], not_joined: Callable[[], Exception]) -> None:
        """Take the class of the library's errors, and what makes the one before init()."""
        self.error = error
        self._not_joined = not_joined
        self._joined = False
        self._communicator: Any | None = None

    def join(self) -> None:
        """Join the job that mpirun's variables describe."""
        if int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1")) > 1:
            from mpi4py import MPI

            # TensorFlow runs a collective on whichever of its threads is free.
            if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
                raise self.error(
                    "MPI was initialised without threads: leave mpi4py's default thread level alone"
                )
            self._communicator = MPI.COMM_WORLD.Dup()
        self._joined = True

    def shutdown(self) -> None:
        """Leave the job, together with all other ranks."""
        if self._communicator is not None:
            self._communicator.Barrier()
            self._communicator.Free()
        self._joined, self._communicator = False, None

    def is_initialized(self) -> bool:
        """Return True between init() and shutdown()."""
        return self._joined

    @property
    def communicator(self) -> Any | None:
        """mpi4py's communicator, apart from the script's own MPI calls; None in a world of one.

        Raise the library's error before init().
        """
        if not self._joined:
            raise self._not_joined()
        return self._communicator

    def rank(self) -> int:
        """Return this process's rank in the job, from 0."""
        communicator = self.communicator
        return 0 if communicator is None else int(communicator.Get_rank())

    def size(self) -> int:
        """Return the number of processes in the job; on AWS each of them has one GPU."""
        communicator = self.communicator
        return 1 if communicator is None else int(communicator.Get_size())

    def local_rank(self) -> int:
        """Return this process's rank on its host, from 0."""
        return 0 if self.communicator is None else int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"])

    def local_size(self) -> int:
        """Return the number of processes on this host."""
        return 1 if self.communicator is None else int(os.environ["OMPI_COMM_WORLD_LOCAL_SIZE"])

    def require_rank(self, root_rank: int) -> None:
        """Raise the library's error unless `root_rank` is a rank of the job."""
        if not 0 <= root_rank < self.size():
            raise self.error(f"root_rank={root_rank} is no rank of a job of {self.size()}")
