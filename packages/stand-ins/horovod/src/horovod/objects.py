"""Python objects between ranks, pickled by mpi4py, such as metrics and checkpoints' positions."""

from __future__ import annotations

from typing import Any

from .job import JOB


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
