"""Runs one all-reduce over NCCL in a process of its own, so that NCCL logs which network it takes.

A job with smddp starts it on every rank before it joins: AWS documents that smddp supports no
process group of another backend beside its own (SageMaker developer guide, "Use the SMDDP library
in your PyTorch training script"), so NCCL can only be asked where smddp is not.

    python nccl_probe.py BACKEND ADDRESS PORT RANK WORLD_SIZE LOCAL_RANK
"""

from __future__ import annotations

import sys
from datetime import timedelta

import torch
import torch.distributed as dist

from common.ranks import choose_device

_MEET_TIMEOUT = timedelta(minutes=2)
"""A rank whose probe could not begin is not waited for longer: the job goes on without a proof."""
_TIMEOUT = timedelta(minutes=5)
_ELEMENTS = 4 * 1024 * 1024


def main(backend: str, address: str, port: int, rank: int, world_size: int, local: int) -> None:
    """Meet the probes of the other ranks, reduce once, and leave."""
    device = choose_device(local)
    store = dist.TCPStore(address, port, world_size, is_master=rank == 0, timeout=_MEET_TIMEOUT)
    dist.init_process_group(
        backend, store=store, rank=rank, world_size=world_size, timeout=_TIMEOUT
    )
    reduced = torch.ones(_ELEMENTS, device=device)
    dist.all_reduce(reduced)
    if float(reduced[0]) != world_size:  # also waits for the GPU
        raise SystemExit(f"an all-reduce of ones over {world_size} ranks gave {float(reduced[0])}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
