"""Proves which network carries the gradients, from NCCL's own log of a short all-reduce.

On instances with EFA a wrong security group, image or variable does not fail a job: NCCL falls back
to TCP, and the job runs for days at a tenth of the speed. So the provider is read from what NCCL
logs while it connects (aws-ofi-nccl's `NET/OFI Selected provider is efa`, NCCL's `Using network
...`), never from settings.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
import time
from collections.abc import Mapping, MutableMapping
from pathlib import Path

import torch
import torch.distributed as dist
from nccl_log import Fabric, parse, read
from ranks import Ranks

REQUIRE = "SHOAL_REQUIRE_EFA"
"""Environment variable: with 1 a job whose gradients do not go over EFA fails at its start."""

_ELEMENTS = 4 * 1024 * 1024
_REPEATS = 3


class FabricError(RuntimeError):
    """The job requires EFA, and the gradients do not go over it."""


def listen(environ: MutableMapping[str, str]) -> None:
    """Make NCCL log to a file how it connects.

    Call this before the first process group. Without GPUs there is no NCCL.
    """
    if torch.cuda.is_available():
        environ["NCCL_DEBUG"] = "INFO"
        environ["NCCL_DEBUG_SUBSYS"] = "INIT,NET"
        environ.setdefault("NCCL_DEBUG_FILE", str(Path(tempfile.gettempdir()) / "nccl.%h.%p.log"))


def prove(ranks: Ranks, environ: Mapping[str, str]) -> str:
    """Return one line about the network, the same on all ranks.

    Raise FabricError on all of them if EFA is required and not used.
    """
    speed = measure(ranks)
    network = look(ranks, environ)
    over_efa = int(ranks.sum(float(network.is_efa))[0])
    on_network = int(ranks.sum(float(network.provider != "loopback"))[0])
    line = (
        f"fabric={network.provider} efa={int(over_efa == ranks.world_size)} hosts={hosts(environ)}"
        f" ranks={ranks.world_size} allreduce_gigabytes_per_second={speed:.3f}"
        f" evidence={network.evidence!r}"
    )
    if environ.get(REQUIRE) == "1" and on_network and over_efa < ranks.world_size:
        # The metric fabric:efa is read from this line, and the caller will not print it.
        if ranks.rank == 0:
            print(line, flush=True)
        raise FabricError(
            f"require_efa: {ranks.world_size - over_efa} of {ranks.world_size} ranks do not use"
            f" EFA; rank {ranks.rank} uses {network.provider} ({network.evidence}). Check the"
            " security group (all traffic to and from itself), the image (aws-ofi-nccl) and"
            " FI_PROVIDER, or set training.require_efa: false"
        )
    return line


def measure(ranks: Ranks) -> float:
    """Return the gigabytes per second of an all-reduce of 16 MiB, as this rank sees it.

    That is the bytes of the tensor over the time of one call.
    """
    tensor = torch.ones(_ELEMENTS, dtype=torch.float32, device=ranks.device)
    ranks.all_reduce(tensor)  # connects, which must not be timed
    begun = _now(ranks.device)
    for _ in range(_REPEATS):
        ranks.all_reduce(tensor.fill_(1.0))
    seconds = (_now(ranks.device) - begun) / _REPEATS
    if not torch.equal(tensor, torch.full_like(tensor, float(ranks.world_size))):
        raise FabricError(
            f"an all-reduce of ones over {ranks.world_size} ranks gave something else"
        )
    return float(tensor.nbytes / seconds / 1e9)


def look(ranks: Ranks, environ: Mapping[str, str]) -> Fabric:
    """Return the network that this rank uses."""
    if ranks.device.type != "cuda":
        return without_nccl(hosts(environ))
    if ranks.backend == "smddp":
        # smddp connects through libraries of its own; NCCL on the same hosts finds the same
        # network, and says which.
        dist.all_reduce(
            torch.ones(_ELEMENTS, device=ranks.device), group=dist.new_group(backend="nccl")
        )
        torch.cuda.synchronize(ranks.device)
    return parse(read(environ["NCCL_DEBUG_FILE"], socket.gethostname(), os.getpid()))


def without_nccl(host_count: int) -> Fabric:
    """Return the network of CPUs, which talk with gloo or MPI.

    Within one host that is loopback, between hosts TCP.
    """
    if host_count == 1:
        return Fabric("loopback", "the CPUs of one host")
    return Fabric("tcp", f"the CPUs of {host_count} hosts")


def hosts(environ: Mapping[str, str]) -> int:
    """Return how many hosts the job has, as SageMaker's toolkit says; 1 without the toolkit."""
    return len(json.loads(environ.get("SM_HOSTS", '["localhost"]')))


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
