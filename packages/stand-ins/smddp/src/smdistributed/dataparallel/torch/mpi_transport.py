"""AllReduce of CPU tensors over MPI, which takes a tenth of gloo's time over sockets.

On one host MPI's ranks meet in shared memory. The reduction runs where it is called, in the thread
of backward(), and is over when the call returns: ranks on a CPU have no second engine that could
reduce a bucket while they compute the next one.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from shoal_stand_ins.transport import meet
from torch._C._distributed_c10d import _create_work_from_future

from ..launch import LaunchEnvironment, Launcher

_OPERATIONS = (
    (dist.ReduceOp.SUM, "SUM"),
    (dist.ReduceOp.PRODUCT, "PROD"),
    (dist.ReduceOp.MIN, "MIN"),
    (dist.ReduceOp.MAX, "MAX"),
)
# The types that gloo reduces. What is not here goes to gloo, which refuses it in its own words.
_AS_THEY_ARE = (torch.float32, torch.float64, torch.int8, torch.uint8, torch.int32, torch.int64)
# MPI has no 16 bit floating point types: they are summed as float32 and rounded once.
_AS_FLOAT32 = (torch.float16, torch.bfloat16)


class MpiTransport:
    """The collectives that MPI carries, by torch's names and arguments.

    `fallback` has all the others.
    """

    def __init__(self, communicator: Any, fallback: Any) -> None:
        self._communicator = communicator
        self._fallback = fallback

    def allreduce(self, tensors: list[torch.Tensor], opts: Any) -> Any:
        """Reduce `tensors` over all ranks, in place; the work that is returned is done."""
        operation = _mpi_name(opts.reduceOp)
        if operation is None or not all(_carries(tensor) for tensor in tensors):
            return self._fallback.allreduce(tensors, opts)
        meet(self._communicator)
        for tensor in tensors:
            self._reduce(tensor.detach(), operation)
        return done(tensors)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fallback, name)

    def _reduce(self, tensor: torch.Tensor, operation: str) -> None:
        from mpi4py import MPI

        wire = (tensor.float() if tensor.dtype in _AS_FLOAT32 else tensor).contiguous()
        self._communicator.Allreduce(MPI.IN_PLACE, wire.numpy(), op=getattr(MPI, operation))
        if wire.data_ptr() != tensor.data_ptr():
            tensor.copy_(wire)


def communicator(environment: LaunchEnvironment) -> Any | None:
    """Return mpi4py's communicator of all ranks, apart from the script's own MPI calls.

    Return None where MPI cannot carry this job.
    """
    if environment.launcher is not Launcher.MPIRUN or environment.world_size == 1:
        return None
    try:
        from mpi4py import MPI
    except ImportError:  # the script was started by mpirun, but mpi4py is not installed
        return None
    if (
        MPI.COMM_WORLD.Get_size() != environment.world_size
        or MPI.Query_thread() < MPI.THREAD_SERIALIZED
    ):
        return None
    return MPI.COMM_WORLD.Dup()


def _mpi_name(operation: Any) -> str | None:
    """Return MPI's name of torch's operation, None if MPI does not have it."""
    # torch's two types of operation are equal in this order only, and hash differently.
    return next(
        (name for torch_operation, name in _OPERATIONS if operation == torch_operation), None
    )


def _carries(tensor: torch.Tensor) -> bool:
    return (
        tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and tensor.dtype in (*_AS_THEY_ARE, *_AS_FLOAT32)
    )


def done(tensors: list[torch.Tensor]) -> Any:
    """Return the work of a collective that is over, with its results in `tensors`."""
    future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
    future.set_result(tensors)
    return _create_work_from_future(future)
