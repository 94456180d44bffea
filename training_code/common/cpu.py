"""Faster training on CPUs: nothing here changes what is computed, and GPUs use none of it.

The figures are at commit 77a74b74 (`git show 77a74b74:docs/lab/2026-11-performance.md`). On a GPU
the allocator is CUDA's, and DistributedDataParallel overlaps its messages with the backward pass.
"""

from __future__ import annotations

import ctypes
import inspect

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
