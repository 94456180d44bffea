"""Faster training on CPUs: nothing here changes what is computed, and GPUs use none of it.

`joined` shares the cores; the rest is for scripts that ask for it.

The figures are at commit 77a74b74 (`git show 77a74b74:docs/lab/2026-11-performance.md`). On a GPU
the allocator is CUDA's, and DistributedDataParallel overlaps its messages with the backward pass.
"""

from __future__ import annotations

import ctypes
import inspect
import os
import socket
import time
from collections.abc import Callable, Mapping

import torch

# glibc's malloc.h
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
KEPT_BYTES = 1 << 30
GROWTH_BYTES = 64 << 20
LARGE_BYTES = 1 << 18
"""A gradient of so many is a message of its own: copying it into one costs more than the message's
fixed part.
"""

FIRST_RANK_PATIENCE_S = 10.0
MIN_PAUSE_S, MAX_PAUSE_S = 0.005, 0.1


def share_cores(local_world_size: int, environ: Mapping[str, str]) -> None:
    """Use this process's share of the host's cores.

    Ranks that each start a thread per core slow each other down. OMP_NUM_THREADS, where it is set,
    is the number of threads.
    """
    if "OMP_NUM_THREADS" not in environ:
        has_affinity = hasattr(os, "sched_getaffinity")
        cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
        torch.set_num_threads(max(1, cores // local_world_size))


def keep_freed_memory() -> None:
    """Let the allocator reuse large blocks.

    glibc returns them to the kernel, which clears each page again for the next tensor.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return
    mallopt(M_MMAP_MAX, 0)
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
    mallopt(M_TOP_PAD, GROWTH_BYTES)


def leave_the_compiler_out() -> None:
    """Spare the second that it takes to import torch's compiler.

    Optimizers import it on first use, only to mark methods that must not be compiled; nothing is
    compiled here. The mark is a private attribute of torch (torch/_compile.py). A version of torch
    that does not look for it imports the compiler as before.
    """
    for method in vars(torch.optim.Optimizer).values():
        function = getattr(method, "__wrapped__", None)
        if function is not None:
            setattr(function, "__dynamo_disable", function)


class Adam(torch.optim.Adam):  # type: ignore[misc, unused-ignore] # untyped where torch is not installed
    """torch's Adam without the wrapper around step(), which imports the compiler.

    The arithmetic is the same.
    """

    step = torch.no_grad()(inspect.unwrap(torch.optim.Adam.step))


def computes_bf16() -> bool:
    """Return whether the CPU has instructions for bfloat16 (AVX512-BF16 or AMX).

    Other CPUs emulate it, slowly.
    """
    has_avx = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    has_amx = getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    return bool(has_avx() or has_amx())


def average_gradients(
    network: torch.nn.Module, all_reduce: Callable[[torch.Tensor], None], world_size: int
) -> None:
    """Average the gradients over the ranks at the end of each backward().

    DistributedDataParallel does the same in buckets during the pass. That gains nothing where one
    core both computes and carries the messages, and it imports torch's compiler.
    """
    parameters = list(network.parameters())
    missing = len(parameters)

    def ready(_parameter: torch.Tensor) -> None:
        nonlocal missing
        missing -= 1
        if not missing:
            missing = len(parameters)
            average(
                [parameter for parameter in parameters if parameter.grad is not None],
                all_reduce,
                world_size,
            )

    for parameter in parameters:
        parameter.register_post_accumulate_grad_hook(ready)


def average(
    parameters: list[torch.Tensor], all_reduce: Callable[[torch.Tensor], None], world_size: int
) -> None:
    """Average the gradients over the ranks.

    Each large one is a message of its own; the small ones are one message, of which they become
    views. A gradient fills one piece of memory, in the order of its parameter's strides or row by
    row, the same on every rank ("Gradient Layout Contract" in
    torch/csrc/autograd/functions/accumulate_grad.h): it is sent as it lies there.
    """
    small = []
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.nbytes >= LARGE_BYTES:
            all_reduce(_flat(parameter.grad))
            parameter.grad /= world_size
        else:
            small.append(parameter)
    gradients = [parameter.grad for parameter in small if parameter.grad is not None]
    if not gradients:
        return
    message = torch.cat([_flat(gradient) for gradient in gradients])
    all_reduce(message)
    message /= world_size
    means = message.split([gradient.numel() for gradient in gradients])
    for parameter, gradient, mean in zip(small, gradients, means, strict=True):
        parameter.grad = mean.as_strided(gradient.shape, gradient.stride())


def _flat(gradient: torch.Tensor) -> torch.Tensor:
    return gradient.as_strided((gradient.numel(),), (1,))


def wait_for_first_rank(
    environ: Mapping[str, str], patience_s: float = FIRST_RANK_PATIENCE_S
) -> bool:
    """Wait until rank 0 of this host listens for the others.

    Return False if it does not within `patience_s`; torch's own client then says why. That client
    sleeps for up to half a second when it is refused once, which happens in every second run of
    ranks that start together on one host. With several hosts this returns at once: starting takes
    longer there, and many ranks would ask one host.
    """
    if (
        environ.get("RANK", "0") == "0"
        or "MASTER_PORT" not in environ
        or environ.get("LOCAL_WORLD_SIZE") != environ.get("WORLD_SIZE")
    ):
        return True
    address = (environ.get("MASTER_ADDR", "localhost"), int(environ["MASTER_PORT"]))
    deadline, pause_s = time.monotonic() + patience_s, MIN_PAUSE_S
    while (left_s := deadline - time.monotonic()) > 0:
        if _listens(address, left_s):
            return True
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, MAX_PAUSE_S)
    return False


def _listens(address: tuple[str, int], timeout_s: float) -> bool:
    try:
        with socket.create_connection(address, timeout_s) as connection:
            # A closed port of this host may connect to itself.
            return bool(connection.getsockname() != connection.getpeername())
    except OSError:
        return False
