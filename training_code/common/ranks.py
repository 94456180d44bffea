"""Joins the job: finds this process's place among the ranks in the launcher's environment.

The same code runs with smddp on p4d, with NCCL on other GPUs, with gloo on CPUs and alone:

    with joined("auto", os.environ) as ranks:
        train(ranks)
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from common import tracking

COLLECTIVE_TIMEOUT = timedelta(minutes=10)
_WITHOUT_CPU = ("smddp", "horovod")
"""Backends that have no group over gloo beside them."""
SMDDP_MODULE = "smdistributed.dataparallel.torch.torch_smddp"

SMDDP_FLAGS = ("SMDATAPARALLEL_USE_SINGLENODE", "SMDATAPARALLEL_USE_HOMOGENEOUS")
"""The training toolkit gives one of these to mpirun when the job asks for smddp."""


@dataclass(frozen=True)
class Ranks:
    """This process's place in the job, and the few collectives that training needs."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    backend: str
    device: torch.device
    control: Any = None
    """A group over gloo for small messages between hosts' CPUs; None is the group of all ranks: of
    gloo itself, and of smddp, which allows no other next to it.
    """

    @property
    def is_first(self) -> bool:
        """Rank 0 prints and writes; the others only compute."""
        return self.rank == 0

    @property
    def leads_host(self) -> bool:
        """One rank of each host cleans the folder for checkpoints: hosts need not share it."""
        return self.local_rank == 0

    def say(self, line: str) -> None:
        """Print once per job."""
        if self.is_first:
            print(line, flush=True)
            tracking.log(line)

    def all_reduce(self, tensor: torch.Tensor, group: Any = None) -> None:
        """Add a tensor over all ranks, in place."""
        dist.all_reduce(tensor, group=group)

    def sum(self, *values: float | torch.Tensor) -> list[float]:
        """Add each value over all ranks; this waits for the device.

        They are float64 between CPUs. Other libraries have no CPU's messages, and are not known to
        reduce more than float32.
        """
        numbers = [float(value) for value in values]
        if self.backend in _WITHOUT_CPU:
            total = torch.tensor(numbers, dtype=torch.float32, device=self.device)
        else:
            total = torch.tensor(numbers, dtype=torch.float64)
        self.all_reduce(total, self.control)
        return total.tolist()  # type: ignore[no-any-return, unused-ignore]

    def gather(self, value: Any) -> list[Any]:
        """Return every rank's value, on every rank."""
        values: list[Any] = [None] * self.world_size
        dist.all_gather_object(values, value, group=self.control)
        return values

    def barrier(self) -> None:
        """Wait until every rank is here."""
        self.sum(0.0)


@contextmanager
def joined(backend: str, environ: Mapping[str, str]) -> Iterator[Ranks]:
    """Be part of the job while the block runs. `backend` is auto, smddp, nccl or gloo.

    What the block makes with the group, DistributedDataParallel above all, must be out of scope at
    its end: let it call a function.
    """
    backend = choose_backend(backend, environ)
    if backend == "smddp":
        # This registers the backend; under mpirun the stand-in also sets RANK and its like.
        importlib.import_module(SMDDP_MODULE)
    local_rank, local_world_size = _local(environ)
    device = choose_device(local_rank)
    if device.type == "cpu":
        share_cores(local_world_size, environ)
    # torch's own objects stay to the end: no collection needs to look through them, nor the
    # interpreter at its exit (0.4 s)
    gc.freeze()
    _join(backend, environ)
    try:
        control = dist.new_group(backend="gloo") if backend == "nccl" else None
        place = (dist.get_rank(), dist.get_world_size(), local_rank, local_world_size)
        ranks = Ranks(*place, backend, device, control)
        if backend == "smddp":
            require_sums(ranks)
        yield ranks
    except BaseException as error:
        traceback.clear_frames(error.__traceback__)  # which refer to it too
        raise
    finally:
        # A process group that something still refers to (DistributedDataParallel sits in reference
        # cycles) keeps its threads, and gloo's abort the interpreter at exit. Where a module is the
        # last that does, it joins them while it holds Python's lock, for which they wait: a hang.
        gc.collect()
        dist.destroy_process_group()


def require_sums(ranks: Ranks) -> None:
    """Prove what every training needs of a library that says little of it: sums in float32.

    Raise RuntimeError, before data is read, for a wrong one.
    """
    (found,) = ranks.sum(ranks.rank)
    if found != sum(range(ranks.world_size)):
        raise RuntimeError(
            f"{ranks.backend} gives {found} as the sum of the numbers of {ranks.world_size} ranks:"
            " use --backend nccl"
        )


def choose_backend(backend: str, environ: Mapping[str, str]) -> str:
    """Decide "auto".

    That is smddp if the launcher was told so and the library is there, else NCCL with CUDA, else
    gloo.
    """
    if backend != "auto":
        return backend
    if any(flag in environ for flag in SMDDP_FLAGS):
        with suppress(ModuleNotFoundError):  # of a package around the module
            if importlib.util.find_spec(SMDDP_MODULE):
                return "smddp"
    return "nccl" if torch.cuda.is_available() else "gloo"


def _local(environ: Mapping[str, str]) -> tuple[int, int]:
    if "OMPI_COMM_WORLD_SIZE" in environ and "RANK" not in environ:
        raise ValueError(
            "mpirun started this process without smddprun, so it has no RANK; is smddprun on PATH"
            " in the image?"
        )
    # AWS's guide reads LOCAL_RANK, transformers reads smddp's own variable: a rank that found
    # neither would share GPU 0 with the others.
    local_rank = environ.get("LOCAL_RANK") or environ.get("SMDATAPARALLEL_LOCAL_RANK")
    if local_rank is None and int(environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError(
            "the launcher gave this process a WORLD_SIZE but no LOCAL_RANK, so it cannot know"
            " its GPU"
        )
    return int(local_rank or "0"), int(environ.get("LOCAL_WORLD_SIZE", "1"))


def choose_device(local_rank: int) -> torch.device:
    """Return the GPU of this rank of the host, made current; without GPUs the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def _join(backend: str, environ: Mapping[str, str]) -> None:
    place: dict[str, Any] = {}
    if "WORLD_SIZE" not in environ:  # no launcher: a job of one, which needs no address to meet at
        place = {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    if interface := environ.get("SM_NETWORK_INTERFACE_NAME"):
        # gloo looks up the host's name, and takes 127.0.0.1 where that says nothing better.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    dist.init_process_group(backend, timeout=COLLECTIVE_TIMEOUT, **place)


def share_cores(local_world_size: int, environ: Mapping[str, str]) -> None:
    """Use this rank's share of the host's cores, unless OMP_NUM_THREADS says how many threads.

    Ranks that each start a thread per core slow each other down.
    """
    if "OMP_NUM_THREADS" not in environ:
        has_affinity = hasattr(os, "sched_getaffinity")
        cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
        torch.set_num_threads(max(1, cores // local_world_size))
