"""The first API of smddp (1.0 to 1.3), deprecated by AWS but still importable.

Its functions work on the one process group. Source: SageMaker Python SDK documentation, "PyTorch
API" of the distributed data parallel library 1.2.
"""

from __future__ import annotations

import os
import warnings
from enum import Enum
from typing import Any

import torch
import torch.distributed as dist

from .. import launch
from ..exceptions import SMDDPUnsupportedError
from . import torch_smddp as torch_smddp
from .process_group import StrictProcessGroup

warnings.warn(
    "smdistributed.dataparallel.torch.distributed is deprecated since version 1.4.0 of the library:"
    ' use torch.distributed with backend "smddp"',
    DeprecationWarning,
    stacklevel=2,
)


class group:  # noqa: N801 - AWS's name
    """The one process group that exists."""

    WORLD = object()


class ReduceOp(Enum):
    """The reductions of `all_reduce`."""

    SUM = "sum"
    AVERAGE = "average"
    MIN = "min"
    MAX = "max"


# gloo has no average: sum, then divide.
_OPERATIONS = {
    ReduceOp.SUM: dist.ReduceOp.SUM,
    ReduceOp.AVERAGE: dist.ReduceOp.SUM,
    ReduceOp.MIN: dist.ReduceOp.MIN,
    ReduceOp.MAX: dist.ReduceOp.MAX,
}


def is_available() -> bool:
    """Return True if this process was started as part of a distributed job."""
    return launch.read(os.environ).launcher is not launch.Launcher.NONE


def init_process_group(*args: Any, **kwargs: Any) -> None:
    """Join the job.

    The arguments exist for parity with torch.distributed and are ignored, as AWS's library does.
    """
    del args, kwargs
    dist.init_process_group("smddp")
    world: Any = dist.group.WORLD
    if isinstance(world, StrictProcessGroup):
        world.first_api = True


def is_initialized() -> bool:
    """Return True after init_process_group."""
    return bool(dist.is_initialized())


def get_world_size(group: object = group.WORLD) -> int:
    """Return the number of ranks in the job."""
    require_world(group)
    return int(dist.get_world_size())


def get_rank(group: object = group.WORLD) -> int:
    """Return this process's rank in the job, from 0."""
    require_world(group)
    return int(dist.get_rank())


def get_local_rank() -> int:
    """Return this process's rank on its host, from 0."""
    require_world(group.WORLD)
    return launch.read(os.environ).local_rank


def all_reduce(
    tensor: Any,
    op: ReduceOp | None = ReduceOp.SUM,
    group: object = group.WORLD,
    async_op: bool = False,
) -> Any:
    """Reduce `tensor` over all ranks, in place; None stands for the sum.

    Returns a handle with `wait()` if `async_op`, else None.
    """
    require_world(group)
    op = op or ReduceOp.SUM
    work = dist.all_reduce(tensor, op=_OPERATIONS[op], async_op=True)
    handle = _AveragingWork(work, tensor) if op is ReduceOp.AVERAGE else work
    return handle if async_op else _finish(handle)


def broadcast(
    tensor: Any, src: int = 0, group: object = group.WORLD, async_op: bool = False
) -> Any:
    """Copy rank `src`'s tensor into every rank's."""
    require_world(group)
    return dist.broadcast(tensor, src, async_op=async_op)


def all_gather(
    tensor_list: list[Any], tensor: Any, group: object = group.WORLD, async_op: bool = False
) -> Any:
    """Collect every rank's `tensor` into `tensor_list`, in the order of ranks."""
    require_world(group)
    return dist.all_gather(tensor_list, tensor, async_op=async_op)


def all_to_all_single(
    output_t: Any,
    input_t: Any,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: object = group.WORLD,
    async_op: bool = False,
) -> Any:
    """Send part r of `input_t` to rank r; `output_t` receives one part from each rank."""
    require_world(group)
    return dist.all_to_all_single(
        output_t, input_t, output_split_sizes, input_split_sizes, async_op=async_op
    )


def barrier(group: object = group.WORLD, async_op: bool = False) -> Any:
    """Wait until every rank is here."""
    require_world(group)
    return dist.barrier(async_op=async_op)


def require_world(process_group: object) -> None:
    """Raise unless the job was joined and `process_group` is its one group."""
    if not dist.is_initialized():
        raise RuntimeError(
            "call smdistributed.dataparallel.torch.distributed.init_process_group() first"
        )
    if process_group is not group.WORLD and process_group is not None:
        raise SMDDPUnsupportedError("smddp supports no process group but group.WORLD")


class _AveragingWork:
    """A pending sum that becomes an average when it is waited for."""

    def __init__(self, work: Any, tensor: Any) -> None:
        self._work = work
        self._tensor = tensor
        self._averaged = False

    def wait(self) -> bool:
        self._work.wait()
        if not self._averaged:
            average = torch.div(
                self._tensor,
                dist.get_world_size(),
                rounding_mode=None if self._tensor.is_floating_point() else "floor",
            )
            self._tensor.copy_(average)
            self._averaged = True
        return True

    def is_completed(self) -> bool:
        return self._averaged or bool(self._work.is_completed())


def _finish(handle: Any) -> None:
    handle.wait()
