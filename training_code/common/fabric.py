"""Proves which network carries the gradients, from NCCL's own log of a short all-reduce.

On instances with EFA a wrong security group, image or variable does not fail a job: NCCL falls back
to TCP, and the job runs for days at a tenth of the speed. So the provider is read from what NCCL
logs while it connects (aws-ofi-nccl's `NET/OFI Selected provider is efa`, NCCL's `Using network
...`), never from settings.

AWS documents that smddp supports no process group of another backend beside its own (SageMaker
developer guide, "Use the SMDDP library in your PyTorch training script"). So where a job with smddp
requires EFA, NCCL is asked by a process of its own before the job is joined: this module, as
`python -m common.fabric BACKEND ADDRESS PORT RANK WORLD_SIZE LOCAL_RANK`.

The same probe goes before a trainer that knows nothing of this. The job's entry point is then a
file beside it:

    from common.fabric import run_proved
    run_proved("train.py")
"""

from __future__ import annotations

import json
import os
import runpy
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from common.nccl_log import Fabric, parse, read
from common.ranks import Ranks, choose_backend, choose_device, joined

REQUIRE = "SHOAL_REQUIRE_EFA"
"""Environment variable: with 1 a job whose gradients do not go over EFA fails at its start."""
LOG = "NCCL_DEBUG_FILE"
PROBE_TIMEOUT_S = 600
_MEET_TIMEOUT, _TIMEOUT = timedelta(minutes=2), timedelta(minutes=5)
"""A rank whose probe could not begin is not waited for longer: the job goes on without a proof."""
ADVICE = (
    "Check the security group (all traffic to and from itself), the image (aws-ofi-nccl) and"
    " FI_PROVIDER, or set training.require_efa: false"
)
_ELEMENTS = 4 * 1024 * 1024
_REPEATS = 3


class FabricError(RuntimeError):
    """The job requires EFA, and the gradients do not go over it."""


@contextmanager
def joined_with_proof(backend: str, environ: Mapping[str, str]) -> Iterator[Ranks]:
    """Be part of the job while the block runs, like `ranks.joined`; print which network it has."""
    listen()
    backend = choose_backend(backend, environ)
    probed = probe(backend, environ)
    with joined(backend, environ) as ranks:
        prove(ranks, environ, probed)
        yield ranks


def run_proved(script: str) -> None:
    """Print which network a process of this rank's own found, and be the script beside this one.

    Raise FabricError if EFA is required and not used.
    """
    listen()
    on_gpu = torch.cuda.is_available()
    network = ask("nccl", os.environ) if on_gpu else of_cpus(os.environ)
    if os.environ.get("RANK", "0") == "0":
        print(
            f"fabric={network.provider} efa={int(network.is_efa)} hosts={hosts(os.environ)}"
            f" evidence={network.evidence!r}",
            flush=True,
        )
    is_required = os.environ.get(REQUIRE) == "1" and network.provider != "loopback"
    if is_required and not network.is_efa:
        raise FabricError(
            f"require_efa: this rank uses {network.provider} ({network.evidence}). {ADVICE}"
        )
    sys.argv[0] = str(Path(sys.argv[0]).with_name(script))
    runpy.run_path(sys.argv[0], run_name="__main__")


def listen() -> None:
    """Make NCCL log to a file how it connects, unless the user lets it log.

    Call this before the first process group. Without GPUs there is no NCCL.
    """
    if torch.cuda.is_available():
        os.environ["NCCL_DEBUG"], os.environ["NCCL_DEBUG_SUBSYS"] = "INFO", "INIT,NET"
        os.environ.setdefault(LOG, str(Path(tempfile.gettempdir()) / "nccl.%h.%p.log"))


def probe(backend: str, environ: Mapping[str, str]) -> Fabric | None:
    """Return what NCCL finds on this rank's host and GPU; None where nothing has to be asked.

    smddp connects through libraries of its own, but it takes the same network.
    """
    needed = backend == "smddp" and environ.get(REQUIRE) == "1" and torch.cuda.is_available()
    return ask("nccl", environ) if needed else None


def ask(backend: str, environ: Mapping[str, str]) -> Fabric:
    """Let a process of this rank reduce, as every rank must at that time, and read NCCL's log.

    Whatever fails there proves nothing: the network is then unknown.
    """
    paths = [str(Path(__file__).parents[1]), environ.get("PYTHONPATH")]
    process = subprocess.Popen(
        [sys.executable, "-m", "common.fabric", backend, *_meeting(environ)],
        env={**environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
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
    return parse(read(environ[LOG], socket.gethostname(), process.pid))


def _meeting(environ: Mapping[str, str]) -> list[str]:
    """Return where the probes meet, two ports above the job itself, and which of them this is.

    Not one above: Linux prefers ports of one parity for listening and of the other for connecting
    (net/ipv4/inet_connection_sock.c), so a port that was found free has a neighbour that any
    connection of this machine may be using. Under mpirun Open MPI numbers the ranks, and the
    toolkit names the server's address on several hosts; AWS's own tests let torch meet two ports
    above it.
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


def _reduce(backend: str, address: str, port: int, rank: int, world_size: int, local: int) -> None:
    """Meet the probes of the other ranks, reduce once, and leave."""
    device = choose_device(local)
    store = dist.TCPStore(address, port, world_size, is_master=rank == 0, timeout=_MEET_TIMEOUT)
    place = {"store": store, "rank": rank, "world_size": world_size}
    dist.init_process_group(backend, timeout=_TIMEOUT, **place)
    reduced = torch.ones(_ELEMENTS, device=device)
    dist.all_reduce(reduced)
    if float(reduced[0]) != world_size:  # also waits for the GPU
        raise SystemExit(f"an all-reduce of ones over {world_size} ranks gave {float(reduced[0])}")
    dist.destroy_process_group()


def prove(ranks: Ranks, environ: Mapping[str, str], probed: Fabric | None = None) -> None:
    """Print one line about the network, once per job; `probed` is what `probe` returned.

    Raise FabricError on all ranks if EFA is required and not used.
    """
    speed = measure(ranks)
    network = probed or look(ranks, environ)
    flags = (network.is_efa, network.provider != "loopback", network.provider == "unknown")
    over_efa, on_network, unknown = map(int, ranks.sum(*flags))
    efa = "unknown" if unknown else int(over_efa == ranks.world_size)
    ranks.say(
        f"fabric={network.provider} efa={efa} hosts={hosts(environ)}"
        f" ranks={ranks.world_size} allreduce_gigabytes_per_second={speed:.3f}"
        f" evidence={network.evidence!r}"
    )
    if environ.get(REQUIRE) == "1" and on_network and over_efa < ranks.world_size:
        raise FabricError(
            f"require_efa: {ranks.world_size - over_efa} of {ranks.world_size} ranks do not use"
            f" EFA; rank {ranks.rank} uses {network.provider} ({network.evidence}). {ADVICE}"
        )


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
        raise FabricError(f"an all-reduce of ones over {ranks.world_size} ranks gave others")
    return float(tensor.nbytes / seconds / 1e9)


def look(ranks: Ranks, environ: Mapping[str, str]) -> Fabric:
    """Return the network that this rank's own NCCL has logged; smddp need not use NCCL.

    CPUs talk with gloo or MPI: within one host that is loopback, between hosts TCP.
    """
    if ranks.device.type == "cuda":
        return parse(read(environ[LOG], socket.gethostname(), os.getpid()))
    return of_cpus(environ)


def of_cpus(environ: Mapping[str, str]) -> Fabric:
    """Return the network of a job without GPUs."""
    count = hosts(environ)
    where = "the CPUs of one host" if count == 1 else f"the CPUs of {count} hosts"
    return Fabric("loopback" if count == 1 else "tcp", where)


def hosts(environ: Mapping[str, str]) -> int:
    """Return how many hosts the job has, as SageMaker's toolkit says; 1 without the toolkit."""
    return len(json.loads(environ.get("SM_HOSTS", '["localhost"]')))


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


if __name__ == "__main__":
    _reduce(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
