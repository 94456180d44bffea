"""Decide whether a run computes in float32, or its convolutions and products in bfloat16.

A CPU with instructions for bfloat16 can be slower in it than in float32: on an Intel Xeon with
avx512_bf16 and without AMX, 13,900 against 20,600 images/s (2026-11). So where a CPU has them, a
few steps of the network itself are timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from common import cpu
from common.ranks import Ranks

FP32, BF16 = "fp32", "bf16"
ROUNDS = 5
MIN_GAIN = 1.03
"""bfloat16 must be this many times as fast, because it rounds."""


def choose(
    precision: str, saved: str | None, ranks: Ranks, loss: Callable[[], torch.Tensor]
) -> tuple[str, str]:
    """Return fp32 or bf16, the same on all ranks, and the reason as one line for the log.

    - `precision`: fp32, bf16, or auto, which keeps that of the checkpoint, `saved`.
    - `loss`: a forward pass over about as many rows as a rank has in a step. It is timed with its
      backward pass, which leaves gradients.
    """
    if precision != "auto":
        return precision, f"precision={precision}, as asked for"
    if ranks.device.type == "cuda":
        # is_bf16_supported() is true of GPUs that emulate it, too
        chosen = BF16 if torch.cuda.get_device_capability(ranks.device) >= (8, 0) else FP32
        return chosen, f"precision={chosen}, by the GPU"
    has_bf16 = cpu.computes_bf16()
    seconds = _seconds(loss) if has_bf16 else {FP32: 0.0, BF16: 0.0}
    # Every rank takes part, also one whose host has no checkpoint or another CPU.
    without, *sums = ranks.sum(not has_bf16, seconds[FP32], seconds[BF16])
    if saved is not None:
        return saved, f"precision={saved}, as in the checkpoint"
    if without:
        return FP32, f"precision={FP32}, because a CPU has no instructions for bfloat16"
    fp32_ms, bf16_ms = (1000 * each / ranks.world_size for each in sums)
    chosen = BF16 if fp32_ms >= MIN_GAIN * bf16_ms else FP32
    times = f"{fp32_ms:.2f} ms in {FP32}, {bf16_ms:.2f} ms in {BF16}"
    return chosen, f"precision={chosen}, measured: {times}"


def _seconds(loss: Callable[[], torch.Tensor]) -> dict[str, float]:
    """Return the shortest forward and backward pass in each precision; the rounds alternate."""
    shortest = {FP32: float("inf"), BF16: float("inf")}
    for round_ in range(ROUNDS + 1):
        for precision in shortest:
            started_at = time.perf_counter()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == BF16):
                value = loss()
            value.backward()  # type: ignore[no-untyped-call, unused-ignore]
            if round_:  # the first one compiles kernels
                shortest[precision] = min(shortest[precision], time.perf_counter() - started_at)
    return shortest
