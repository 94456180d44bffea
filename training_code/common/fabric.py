"""Proves which network carries the gradients, from NCCL's own log of a short all-reduce.

On instances with EFA a wrong security group, image or variable does not fail a job: NCCL falls back
to TCP, and the job runs for days at a tenth of the speed. So the provider is read from what NCCL
logs while it connects (aws-ofi-nccl's `NET/OFI Selected provider is efa`, NCCL's `Using network
...`), never from settings. A job with smddp opens no group of NCCL's; where it requires EFA, NCCL
is asked in a process of its own before the job is joined.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, MutableMapping
from pathlib import Path

import torch

from common.nccl_log import Fabric, parse, read
from common.ranks import Ranks

REQUIRE = "SHOAL_REQUIRE_EFA"
"""Environment variable: with 1 a job whose gradients do not go over EFA fails at its start."""

PROBE_TIMEOUT_S = 600
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


def probe(backend: str, environ: Mapping[str, str]) -> Fabric | None:
    """Return what NCCL finds on this rank's host and GPU; None where nothing has to be asked.

    Call this before a job that requires EFA is joined. smddp connects through libraries of its own
    and can have no group of NCCL's beside it, but it takes the same network.
    """
    needed = backend == "smddp" and environ.get(REQUIRE) == "1" and torch.cuda.is_available()
    return ask("nccl", environ) if needed else None


def ask(backend: str, environ: Mapping[str, str]) -> Fabric:
    """Run nccl_probe.py on this rank, as every rank must at that time, and read NCCL's log of it.

    Whatever fails there proves nothing: the network is then unknown.
    """
    script, parent = Path(__file__).with_name("nccl_probe.py"), str(Path(__file__).parents[1])
    paths = os.pathsep.join(filter(None, (parent, environ.get("PYTHONPATH"))))
    process = subprocess.Popen(
        [sys.executable, str(script), backend, *_meeting(environ)],
        env={**environ, "PYTHONPATH": paths},
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    try:
        _, errors = process.communicate(timeout=PROBE_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return Fabric("unknown", f"NCCL did not connect within {PROBE_TIMEOUT_S} s")
    if process.returncode:
        lines = errors.strip().splitlines() or ["no message"]
        return Fabric("unknown", f"NCCL's probe ended with {process.returncode}: {lines[-1]}")
    return parse(read(environ["NCCL_DEBUG_FILE"], socket.gethostname(), process.pid))


def _meeting(environ: Mapping[str, str]) -> list[str]:
    """Return where the probes meet, two ports above the job itself, and which of them this is.

    Not one above: Linux prefers ports of one parity for listening and of the other for connecting
    (net/ipv4/inet_connection_sock.c), so a port that was found free has a neighbour that any
    connection of this machine may be using.

    Under mpirun Open MPI numbers the ranks, and the toolkit names the server's address on several
    hosts; AWS's own tests let torch meet two ports above it.
    """
    server_port = int(environ.get("SMDATAPARALLEL_SERVER_PORT", "29498")) + 2
    address = environ.get("MASTER_ADDR") or environ.get("SMDATAPARALLEL_SERVER_ADDR", "127.0.0.1")
    port = int(environ.get("MASTER_PORT") or server_port) + 2
    numbers = (
        environ.get(f"OMPI_COMM_WORLD_{of_mpi}") or environ.get(of_torch, default)
        for of_mpi, of_torch, default in (
            ("RANK", "RANK", "0"),
            ("SIZE", "WORLD_SIZE", "1"),
            ("LOCAL_RANK", "LOCAL_RANK", "0"),
        )
    )
    return [address, str(port), *numbers]


def prove(ranks: Ranks, environ: Mapping[str, str], probed: Fabric | None = None) -> str:
    """Return one line about the network, the same on all ranks; `probed` is what `probe` returned.

    Raise FabricError on all of them if EFA is required and not used.
    """
    speed = measure(ranks)
    network = probed or look(ranks, environ)
    over_efa = int(ranks.sum(float(network.is_efa))[0])
    on_network = int(ranks.sum(float(network.provider != "loopback"))[0])
    unknown = ranks.sum(float(network.provider == "unknown"))[0]
    efa = "unknown" if unknown else str(int(over_efa == ranks.world_size))
    line = (
        f"fabric={network.provider} efa={efa} hosts={hosts(environ)}"
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
    """Return the network that this rank's own NCCL has logged; smddp need not use NCCL."""
    if ranks.device.type != "cuda":
        return without_nccl(hosts(environ))
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
