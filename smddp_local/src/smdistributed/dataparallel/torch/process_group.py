"""The process groups behind backend "smddp": gloo with MPI's AllReduce, and a strict one that has only what AWS's library documents.

Source of the list: SageMaker developer guide, SMDDP FAQ ("all_reduce, broadcast, reduce, all_gather, barrier").
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroupGloo

from ..exceptions import SMDDPPerformanceWarning, SMDDPUnsupportedError
from ..launch import LaunchEnvironment
from .mpi_transport import MpiTransport, communicator

# torch's names for the documented primitives, in all the forms its versions use.
DOCUMENTED = (
    "allreduce",
    "allreduce_coalesced",
    "broadcast",
    "reduce",
    "allgather",
    "_allgather_base",
    "allgather_coalesced",
    "allgather_into_tensor_coalesced",
)
# FSDP needs both halves: with AllGather accelerated, NCCL serves ReduceScatter underneath. In DDP mode it does not exist.
# Values: what gloo calls it.
WITH_ALLGATHER = {
    "reduce_scatter": "reduce_scatter",
    "_reduce_scatter_base": "_reduce_scatter_base",
    "reduce_scatter_single": "_reduce_scatter_base",
}
# The first API (1.0 to 1.3) documents this one; today's list does not. Values: what gloo calls it.
WITH_FIRST_API = {"alltoall_base": "alltoall_base", "all_to_all_single": "alltoall_base"}
UNDOCUMENTED = ("gather", "scatter", "alltoall", "send", "recv", "recv_anysource")

# An AllReduce of this size is a model's gradients rather than a metric.
GRADIENT_BYTES = 1024 * 1024


def gloo(store: Any, rank: int, world_size: int, timeout: timedelta, *, loopback: bool) -> Any:
    """A gloo group; with `loopback` its sockets exist on 127.0.0.1 only."""
    if not loopback:
        return ProcessGroupGloo(store, rank, world_size, timeout)
    options = ProcessGroupGloo._Options()  # type: ignore[attr-defined, unused-ignore] # torch lists it in some versions
    options._devices = [ProcessGroupGloo.create_device(hostname="127.0.0.1")]
    options._timeout = timeout
    return ProcessGroupGloo(store, rank, world_size, options)


class PlainProcessGroup(dist.ProcessGroup):  # type: ignore[misc, unused-ignore] # untyped where torch is not installed
    """Whatever gloo can do; under mpirun AllReduce goes over MPI."""

    def __init__(self, store: Any, rank: int, world_size: int, timeout: timedelta, environment: LaunchEnvironment) -> None:
        super().__init__(rank, world_size)  # type: ignore[call-arg, unused-ignore] # this overload lacks in torch's stubs
        self.environment = environment
        self.gloo = gloo(store, rank, world_size, timeout, loopback=environment.single_host)
        found = communicator(environment)
        self.transport = self.gloo if found is None else MpiTransport(found, self.gloo)
        # Collectives without a Python hook (functional ones, among others) go to the backend registered here.
        if hasattr(self, "_set_default_backend"):  # torch 2.3 neither has nor needs it
            self._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)
        self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.CUSTOM, self.gloo)

    def getBackendName(self) -> str:  # noqa: N802 - torch's name
        """The name that torch prints."""
        return "smddp"

    def allreduce(self, tensors: Any, opts: Any) -> Any:  # type: ignore[override, unused-ignore] # the form torch calls
        """Reduce over all ranks, in place."""
        return self.transport.allreduce(tensors, opts)


class StrictProcessGroup(PlainProcessGroup):
    """Hands the documented collectives on and refuses all others with SMDDPUnsupportedError."""

    first_api = False

    def barrier(self, opts: Any) -> Any:  # type: ignore[override, unused-ignore] # the form torch calls
        """Wait for all ranks; AWS's library has no `device_ids`."""
        if opts.device_ids:
            raise SMDDPUnsupportedError("smddp does not support barrier(device_ids=...): call barrier() without it")
        return self.gloo.barrier(opts)


def _allowed(name: str) -> Callable[..., Any]:
    def collective(self: StrictProcessGroup, *arguments: Any, **named: Any) -> Any:
        if name == "allreduce":
            _warn_if_not_accelerated(self.environment, arguments[0])
        return getattr(self.transport, name)(*arguments, **named)

    return collective


def _allowed_with_allgather(name: str) -> Callable[..., Any]:
    def collective(self: StrictProcessGroup, *arguments: Any, **named: Any) -> Any:
        if not self.environment.accelerates_allgather:
            raise SMDDPUnsupportedError(
                f"smddp started by {self.environment.launcher} accelerates AllReduce and has no {name}: "
                "start FSDP with torchrun, or set SMDATAPARALLEL_OPTIMIZE_SDP=true"
            )
        return getattr(self.gloo, WITH_ALLGATHER[name])(*arguments, **named)

    return collective


def _allowed_with_first_api(name: str) -> Callable[..., Any]:
    def collective(self: StrictProcessGroup, *arguments: Any, **named: Any) -> Any:
        if not self.first_api:
            raise _not_implemented(name)
        return getattr(self.gloo, WITH_FIRST_API[name])(*arguments, **named)

    return collective


def _refused(name: str) -> Callable[..., Any]:
    def collective(_self: StrictProcessGroup, *_arguments: Any, **_named: Any) -> Any:
        raise _not_implemented(name)

    return collective


def _not_implemented(name: str) -> SMDDPUnsupportedError:
    return SMDDPUnsupportedError(f"smddp does not implement {name}; it has all_reduce, broadcast, reduce, all_gather and barrier")


def _warn_if_not_accelerated(environment: LaunchEnvironment, tensors: list[Any]) -> None:
    size_bytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    if environment.accelerates_allgather and size_bytes >= GRADIENT_BYTES:
        message = f"under {environment.launcher} smddp accelerates AllGather; NCCL would run this AllReduce of {size_bytes} bytes"
        warnings.warn(message, SMDDPPerformanceWarning, stacklevel=3)


def _define(names: Iterable[str], make: Callable[[str], Callable[..., Any]]) -> None:
    for name in names:
        if hasattr(dist.ProcessGroup, name):
            setattr(StrictProcessGroup, name, make(name))


_define(DOCUMENTED, _allowed)
_define(WITH_ALLGATHER, _allowed_with_allgather)
_define(WITH_FIRST_API, _allowed_with_first_api)
_define(UNDOCUMENTED, _refused)
