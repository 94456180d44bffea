"""Registers the torch.distributed backend "smddp" for CPUs when it is imported.

    import torch.distributed as dist
    import smdistributed.dataparallel.torch.torch_smddp
    dist.init_process_group(backend="smddp")

The backend is gloo, and MPI for AllReduce under mpirun. In strict mode, importing it raises
SMDDPConfigurationError where AWS's library (2.3.0 and later) refuses to be imported.
"""

import atexit
import gc
import os
import sys
import time
import weakref
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from smdistributed.dataparallel.torch.process_group import (
    PlainProcessGroup,
    StrictProcessGroup,
    gloo,
)

from .. import launch
from ..exceptions import SMDDPConfigurationError, SMDDPUnsupportedError
from ..launch import check_instance_type

# gloo's threads need the interpreter's lock to let go of a finished collective's tensors; see
# _leave.
SETTLE_S = 0.2
_groups: weakref.WeakSet[Any] = weakref.WeakSet()


def _create(store: Any, rank: int, world_size: int, timeout: timedelta) -> Any:
    """Create a group for torch.distributed: the default one, and again for each new_group()."""
    environment = launch.read(os.environ)
    if environment.strict:
        _check_launcher(environment)
        group: Any = StrictProcessGroup(store, rank, world_size, timeout, environment)
    elif environment.launcher is launch.Launcher.MPIRUN and not dist.is_initialized():
        group = PlainProcessGroup(store, rank, world_size, timeout, environment)
    else:  # only the default group has MPI, under mpirun; every other one is gloo alone
        group = gloo(store, rank, world_size, timeout, loopback=environment.single_host)
    _groups.add(group)
    return group


def _check_launcher(environment: launch.LaunchEnvironment) -> None:
    if environment.launcher is launch.Launcher.NONE:
        raise SMDDPConfigurationError(
            "smddp needs a launcher: start the script with mpirun and smddprun, or with torchrun"
        )
    if environment.launcher is launch.Launcher.TORCHRUN and environment.optimize_sdp:
        raise SMDDPConfigurationError(
            "SMDATAPARALLEL_OPTIMIZE_SDP=true is for mpirun; under torchrun smddp accelerates"
            " AllGather anyway"
        )


def _refuse_other_groups() -> None:
    """Refuse groups of every backend, NCCL's and gloo's too, while smddp's exists.

    All of torch's functions that make a group come through the one that is replaced. Source:
    SageMaker developer guide, "Use the SMDDP library in your PyTorch training script": "You also
    cannot use the smddp backend concurrently with other process group backends".
    """
    make_group = dist.distributed_c10d._new_group_with_tag

    def new_group(*arguments: Any, **named: Any) -> Any:
        if dist.is_initialized() and dist.get_backend() == "smddp":
            raise SMDDPUnsupportedError(
                "smddp supports no process group but the default one, of no backend: new_group()"
                " is refused"
            )
        return make_group(*arguments, **named)

    dist.distributed_c10d._new_group_with_tag = new_group


def _leave() -> None:
    """Keep gloo's threads from aborting the interpreter while it exits.

    A gloo thread that drops the last collective's tensors needs the interpreter's lock; if the
    interpreter is already finalising, the thread is ended by force inside a C++ destructor and the
    process dies with SIGABRT ("terminate called without an active exception"), about one run in
    five. Leaving the group joins the threads unless something (a DistributedDataParallel in a
    global) still holds it; the pause serves that case. After an uncaught exception the group is
    left alone: its collectives may never end, and the exit status must not wait for them.
    """
    if (
        dist.is_initialized()
        and dist.get_backend() == "smddp"
        and getattr(sys, "last_type", None) is None
    ):
        dist.destroy_process_group()
    gc.collect()
    if _groups:
        time.sleep(SETTLE_S)


def _register() -> None:
    environment = launch.read(os.environ)
    check_instance_type(environment)
    launch.export(os.environ)
    if environment.strict:
        _refuse_other_groups()
    dist.Backend.register_backend("smddp", _create, devices=["cpu"])
    atexit.register(_leave)


_register()
