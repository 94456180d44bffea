"""The process groups behind backend "smddp", a plain and a strict one, and AllReduce of CPU tensors
over MPI, which takes a tenth of gloo's time over sockets.

The plain one is gloo with MPI's AllReduce. The strict one has only what AWS's library documents.
Source of the list: SageMaker developer guide, SMDDP FAQ ("all_reduce, broadcast, reduce,
all_gather, barrier").

On one host MPI's ranks meet in shared memory. The reduction runs where it is called, in the
thread of backward(), and is over when the call returns: ranks on a CPU have no second engine
that could reduce a bucket while they compute the next one.
"""

import warnings
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from shoal_stand_ins.transport import meet
from smdistributed.dataparallel.exceptions import SMDDPPerformanceWarning, SMDDPUnsupportedError
from smdistributed.dataparallel.launch import LaunchEnvironment, Launcher
from torch._C._distributed_c10d import ProcessGroupGloo, _create_work_from_future

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
    "all_gather_single_coalesced",
)
# FSDP needs both halves: with AllGather accelerated, NCCL serves ReduceScatter underneath. In DDP
# mode it does not exist.
WITH_ALLGATHER = (
    "reduce_scatter",
    "_reduce_scatter_base",
    "reduce_scatter_single",
    "reduce_scatter_tensor_coalesced",
    "reduce_scatter_single_coalesced",
)
UNDOCUMENTED = (
    *("gather", "scatter", "alltoall", "alltoall_base", "all_to_all_single"),
    *("send", "recv", "recv_anysource"),
)

# Of torch's operations those that AWS's reference lists ("AVERAGE, SUM, MIN, MAX"; torch has no
# AVERAGE, and AVG is refused: aws/amazon-sagemaker-examples, issue 3967).
REDUCTIONS = (dist.ReduceOp.SUM, dist.ReduceOp.MIN, dist.ReduceOp.MAX)
WITH_REDUCTION = ("allreduce", "allreduce_coalesced", "reduce")

# What gloo calls a collective in Python, where it has another name than the group.
GLOO_NAMES = {
    "all_to_all_single": "alltoall_base",
    "reduce_scatter_single": "_reduce_scatter_base",
}
# Collectives of several tensors that gloo lacks in Python, with the one that it runs for each.
ONE_BY_ONE = {
    "all_gather_single_coalesced": "_allgather_base",
    "allgather_into_tensor_coalesced": "_allgather_base",
    "reduce_scatter_single_coalesced": "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced": "_reduce_scatter_base",
}
# The methods that torch calls on a Python class of process groups. Where the class lacks one, torch
# calls the C++ method while it holds the interpreter's lock: it waits for gloo's lock, whose
# holder, gloo's thread, waits for the interpreter's to let go of the last collective's tensors.
# Neither ever gets it, and the job stands still. So every one of them is defined here. Source:
# WORK_OVERRIDE in torch/csrc/distributed/c10d/PyProcessGroup.hpp, torch 2.13.
CALLED_IN_PYTHON = (
    "allgather",
    "allreduce_coalesced",
    "alltoall_base",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "recv",
    "reduce_scatter",
    "send",
    *ONE_BY_ONE,
)

# An AllReduce of this size is a model's gradients rather than a metric.
GRADIENT_BYTES = 1024 * 1024


def gloo(store: Any, rank: int, world_size: int, timeout: timedelta, *, loopback: bool) -> Any:
    """Return a gloo group; with `loopback` its sockets exist on 127.0.0.1 only."""
    if not loopback:
        return ProcessGroupGloo(store, rank, world_size, timeout)
    options = ProcessGroupGloo._Options()  # type: ignore[attr-defined, unused-ignore] # torch lists it in some versions
    options._devices = [ProcessGroupGloo.create_device(hostname="127.0.0.1")]
    options._timeout = timeout
    return ProcessGroupGloo(store, rank, world_size, options)


class PlainProcessGroup(dist.ProcessGroup):  # type: ignore[misc, unused-ignore] # untyped where torch is not installed
    """All that gloo can do; under mpirun AllReduce goes over MPI."""

    def __init__(
        self,
        store: Any,
        rank: int,
        world_size: int,
        timeout: timedelta,
        environment: LaunchEnvironment,
    ) -> None:
        super().__init__(rank, world_size)  # type: ignore[call-arg, unused-ignore] # this overload lacks in torch's stubs
        self.environment = environment
        self.gloo = gloo(store, rank, world_size, timeout, loopback=environment.single_host)
        mpi = communicator(environment)
        self.transport = self.gloo if mpi is None else MpiTransport(mpi, self.gloo)
        # Collectives without a Python hook (functional ones, among others) go to the backend
        # registered here.
        if hasattr(self, "_set_default_backend"):  # torch 2.3 neither has nor needs it
            self._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)
        self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.CUSTOM, self.gloo)

    def getBackendName(self) -> str:  # noqa: N802 - torch's name
        """Return the name that torch prints."""
        return "smddp"

    def allreduce(self, tensors: Any, opts: Any) -> Any:  # type: ignore[override, unused-ignore] # the form torch calls
        """Reduce over all ranks, in place."""
        return self.transport.allreduce(tensors, opts)


class StrictProcessGroup(PlainProcessGroup):
    """Hands the documented collectives on and refuses all others with SMDDPUnsupportedError."""

    def barrier(self, opts: Any) -> Any:  # type: ignore[override, unused-ignore] # the form torch calls
        """Wait for all ranks; AWS's library has no `device_ids`."""
        if opts.device_ids:
            raise SMDDPUnsupportedError(
                "smddp does not support barrier(device_ids=...): call barrier() without it"
            )
        return self.gloo.barrier(opts)


Check = Callable[[Any, str, tuple[Any, ...]], None]
"""Takes a strict group, a collective's name and its arguments; raises or warns."""


def _forward(name: str, check: Check | None) -> Callable[..., Any]:
    def collective(self: PlainProcessGroup, *arguments: Any, **keywords: Any) -> Any:
        if check is not None:
            check(self, name, arguments)
        if name in ONE_BY_ONE:
            return _one_by_one(getattr(self.gloo, ONE_BY_ONE[name]), *arguments, **keywords)
        return getattr(self.transport, GLOO_NAMES.get(name, name))(*arguments, **keywords)

    return collective


def _one_by_one(
    collective: Callable[..., Any],
    outputs: list[torch.Tensor],
    inputs: list[torch.Tensor],
    *opts: Any,
    **keywords: Any,
) -> Any:
    for output, tensor in zip(outputs, inputs, strict=True):
        collective(output, tensor, *opts, **keywords).wait()
    return done(outputs)


def _check_documented(group: StrictProcessGroup, name: str, arguments: tuple[Any, ...]) -> None:
    """Refuse an operation under every launcher; warn of what NCCL would run."""
    if name in WITH_REDUCTION and len(arguments) > 1:
        operation = arguments[1].reduceOp
        # torch's two types of operation are equal in this order only
        if not any(operation == each for each in REDUCTIONS):
            raise SMDDPUnsupportedError(
                f"SMDDP does not support: ReduceOp in {name}; it has SUM, MIN and MAX. For an"
                " average sum, and divide by the number of ranks"
            )
    if name != "allreduce" or not group.environment.accelerates_allgather:
        return
    size_bytes = sum(tensor.numel() * tensor.element_size() for tensor in arguments[0])
    if size_bytes >= GRADIENT_BYTES:
        message = (
            f"under {group.environment.launcher} smddp accelerates AllGather; NCCL would run this"
            f" AllReduce of {size_bytes} bytes"
        )
        warnings.warn(message, SMDDPPerformanceWarning, stacklevel=3)


def _require_allgather(group: StrictProcessGroup, name: str, _arguments: tuple[Any, ...]) -> None:
    if not group.environment.accelerates_allgather:
        raise SMDDPUnsupportedError(
            f"smddp started by {group.environment.launcher} accelerates AllReduce and has no"
            f" {name}: start FSDP with torchrun, or set SMDATAPARALLEL_OPTIMIZE_SDP=true"
        )


def _refuse(_group: StrictProcessGroup, name: str, _arguments: tuple[Any, ...]) -> None:
    raise SMDDPUnsupportedError(
        f"smddp does not implement {name}; it has all_reduce, broadcast, reduce, all_gather and"
        " barrier"
    )


def _define(
    kind: type[PlainProcessGroup], names: Iterable[str], check: Check | None = None
) -> None:
    for name in names:
        if hasattr(dist.ProcessGroup, name):
            setattr(kind, name, _forward(name, check))


_define(PlainProcessGroup, CALLED_IN_PYTHON)
_define(StrictProcessGroup, DOCUMENTED, _check_documented)
_define(StrictProcessGroup, WITH_ALLGATHER, _require_allgather)
_define(StrictProcessGroup, UNDOCUMENTED, _refuse)
