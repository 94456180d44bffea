"""Prove that the gradients go over EFA, before the script: run.py starts this program in each rank
of a job that requires it.

There a wrong security group, image or variable does not fail a job: NCCL falls back to TCP, and the
job runs for days at a tenth of the speed. So the ranks meet, reduce with NCCL and leave, and the
provider is read from what NCCL logged while it connected (aws-ofi-nccl's `NET/OFI Selected provider
is efa`, NCCL's `Using network ...`), never from settings. They do so in a process of their own, as
smddp supports no process group of another backend beside its own (SageMaker developer guide, "Use
the SMDDP library in your PyTorch training script").

Rank 0 prints one line. Where EFA is not used, each rank prints why, and exits with 1.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

GPU = Path("/dev/nvidiactl")
"""Each container with a GPU has it; torch, which takes seconds to import, is not asked."""
_MEET_TIMEOUT, _TIMEOUT = timedelta(minutes=5), timedelta(minutes=3)
"""Hosts install requirements, each for itself, before. No timeout of PyTorch's covers a connection
that NCCL waits for, as behind a security group that does not name itself (aws-ofi-nccl issue 663):
`_leave_in_time` does.
"""
_LEAVE_S = 20
_ELEMENTS = 4 * 1024 * 1024
_REPEATS = 3
_SELECTED = re.compile(r"NET/OFI Selected [Pp]rovider is (?P<provider>[\w;+-]+)")
_USING = re.compile(
    r"(?:Using network|Assigned NET plugin) (?P<network>AWS Libfabric|Libfabric|Socket|IB|[\w-]+)"
)
_FAILED = re.compile(
    r"NET/OFI (?:aws-ofi-nccl initialization failed|Initializing plugin failed|Could not find any"
    r" optimal provider)"
)
_TCP = {"tcp", "sockets", "tcp;ofi_rxm", "tcp;ofi_rxd"}


@dataclass(frozen=True)
class Network:
    """The network between the ranks of this job."""

    provider: str
    """efa, tcp, infiniband, loopback (CPUs of one host), or unknown: NCCL logged none."""
    evidence: str
    """The log line that says so, or why there is none."""
    efa_ranks: int = 0
    """Ranks whose NCCL says that it uses EFA."""
    gb_per_s: float | None = None
    """Bytes of an all-reduced tensor of 16 MiB over the time of one call."""


class Place(NamedTuple):
    """Where this rank is, and where all meet, as run.py reads it from the launcher's variables."""

    rank: int
    world_size: int
    local_rank: int
    address: str
    port: int


def parse(log: str) -> Network:
    """Return the provider that a log of NCCL says is used.

    aws-ofi-nccl, the plugin that brings EFA to NCCL, says which libfabric provider it selected;
    NCCL then says which network it uses. Only both together are a proof, and the last word counts:
    a plugin may select EFA, fail, and leave NCCL to TCP.
    """
    provider, evidence = "unknown", "NCCL has logged no network"
    selected, selected_by = "unknown", ""
    for line in map(str.strip, log.splitlines()):
        if match := _SELECTED.search(line):
            selected, selected_by = "tcp" if match["provider"] in _TCP else match["provider"], line
            if selected != provider:  # selected is not yet used
                provider, evidence = "unknown", line
        elif _FAILED.search(line):
            selected, provider, evidence = "unknown", "unknown", line
        elif match := _USING.search(line):
            over_plugin = match["network"].endswith("Libfabric") and selected != "unknown"
            provider = (
                selected
                if over_plugin
                else {"Socket": "tcp", "IB": "infiniband"}.get(match["network"], "unknown")
            )
            evidence = selected_by if over_plugin else line
    return Network(provider, evidence)


def probe(place: Place, backend: str, device: str) -> Network:
    """Reduce with the other ranks, and read what NCCL logged.

    Raises RuntimeError if they do not meet, or if a sum is wrong.
    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "nccl.log")
        os.environ |= {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}
        os.environ["NCCL_DEBUG_FILE"] = str(log)
        import torch
        import torch.distributed as dist

        is_first, address = place.rank == 0, (place.address, place.port, place.world_size)
        store = dist.TCPStore(*address, is_master=is_first, timeout=_MEET_TIMEOUT)
        who = {"store": store, "rank": place.rank, "world_size": place.world_size}
        dist.init_process_group(backend, timeout=_TIMEOUT, **who)
        _leave_in_time(log)
        ones = torch.ones(_ELEMENTS, device=device)
        dist.all_reduce(ones)  # connects, which must not be timed
        ones[0].item()  # waits for the GPU
        begun = time.perf_counter()
        for _ in range(_REPEATS):
            dist.all_reduce(ones.fill_(1.0))
        total = float(ones[0])
        seconds = (time.perf_counter() - begun) / _REPEATS
        if total != place.world_size:
            raise RuntimeError(f"an all-reduce of ones over {place.world_size} ranks gave {total}")
        network = parse(_read(log))
        over_efa = torch.tensor(float(network.provider == "efa"), device=device)
        dist.all_reduce(over_efa)
        efa_ranks = int(over_efa)
        dist.destroy_process_group()
        left, leave_at = store.add("left", 1), time.monotonic() + _LEAVE_S
        while is_first and left < place.world_size and time.monotonic() < leave_at:
            time.sleep(0.05)  # the store is this process's: who still asks it would complain
            left = store.add("left", 0)
    return replace(network, efa_ranks=efa_ranks, gb_per_s=ones.nbytes / seconds / 1e9)


def _leave_in_time(log: Path) -> None:
    """End this process, with what NCCL logged, where it hangs or whoever started it is gone."""
    parent, at = os.getppid(), time.monotonic() + _TIMEOUT.total_seconds()

    def look_after() -> None:
        while os.getppid() == parent and time.monotonic() < at:
            time.sleep(1)
        network = parse(_read(log))
        print(f"NCCL did not connect; it uses {network.provider} ({network.evidence})", flush=True)
        os._exit(1)

    threading.Thread(target=look_after, daemon=True).start()


def _read(log: Path) -> str:
    return log.read_text(errors="replace") if log.is_file() else ""


def look(place: Place, hosts: int, *, has_gpu: bool) -> Network:
    """Return this rank's network; CPUs (gloo, MPI) use loopback in one host, TCP between hosts."""
    if not has_gpu:
        where = "the CPUs of one host" if hosts == 1 else f"the CPUs of {hosts} hosts"
        return Network("loopback" if hosts == 1 else "tcp", where)
    try:
        import torch

        torch.cuda.set_device(place.local_rank)
        return probe(place, "nccl", "cuda")
    except Exception as error:  # noqa: BLE001 (whatever fails proves nothing)
        return Network("unknown", f"NCCL's probe failed: {' '.join(str(error).split())[:300]}")


def main() -> int:
    """Print the line or the reason; return the exit code."""
    place = Place(*json.loads(sys.argv[1]))
    hosts = len(json.loads(os.environ.get("SM_HOSTS", "[1]")))
    network = look(place, hosts, has_gpu=GPU.exists())
    lacking = place.world_size - network.efa_ranks
    if network.provider == "unknown":
        print(f"nothing says which network rank {place.rank} uses ({network.evidence})")
        return 1
    if lacking and network.provider != "loopback":
        print(
            f"{lacking} of {place.world_size} ranks do not use EFA; rank {place.rank} uses"
            f" {network.provider} ({network.evidence})"
        )
        return 1
    if place.rank == 0:
        speed = network.gb_per_s
        measured = "" if speed is None else f" allreduce_gigabytes_per_second={speed:.3f}"
        print(
            f"fabric={network.provider} efa={int(not lacking)} hosts={hosts}"
            f" ranks={place.world_size}{measured} evidence={network.evidence!r}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
