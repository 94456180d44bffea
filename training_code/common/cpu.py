"""Faster training on CPUs: nothing here changes what is computed, and GPUs use none of it.

The figures are at commit 77a74b74 (`git show 77a74b74:docs/lab/2026-11-performance.md`). On a GPU
the allocator is CUDA's, and DistributedDataParallel overlaps its messages with the backward pass.
"""

from __future__ import annotations

import ctypes
import inspect
from pathlib import Path

import torch

# glibc's malloc.h
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
KEPT_BYTES, GROWTH_BYTES = 1 << 30, 64 << 20

HAS_FUSED_ADAM = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 4)
"""Whether torch has one kernel for a step of all weights; on GPUs it has since 2.0."""


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


def is_faster_in_bf16() -> bool:
    """Return whether MNIST's network trains faster in bfloat16: with AMX, and with the AVX512-BF16
    of AMD.

    Images a second in bfloat16 and in float32: 5,361 and 2,860 on an AMD Zen 5 (at 77a74b74), but
    13,900 and 20,600 on an Intel Xeon that has AVX512-BF16 and no AMX (2026-11).
    """
    if getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)():
        return True
    try:
        is_amd = "AuthenticAMD" in Path("/proc/cpuinfo").read_text()
    except OSError:  # not on Linux
        return False
    return is_amd and computes_bf16()
