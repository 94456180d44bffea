"""Decide whether a run computes in float32, or its convolutions and products in bfloat16."""

from __future__ import annotations

import torch

from common import cpu
from common.ranks import Ranks

FP32, BF16 = "fp32", "bf16"


def choose(precision: str, saved: str | None, ranks: Ranks) -> tuple[str, str]:
    """Return fp32 or bf16, the same on all ranks, and the reason as one line for the log.

    `precision` is fp32, bf16, or auto, which keeps that of the checkpoint, `saved`, and else takes
    bf16 if all CPUs are faster in it.
    """
    if precision != "auto":
        return precision, f"precision={precision}, as asked for"
    if ranks.device.type == "cuda":
        # is_bf16_supported() is true of GPUs that emulate it, too
        chosen = BF16 if torch.cuda.get_device_capability(ranks.device) >= (8, 0) else FP32
        return chosen, f"precision={chosen}, by the GPU"
    # Every rank takes part, also one whose host has no checkpoint or another CPU.
    (slower,) = ranks.sum(not cpu.is_faster_in_bf16())
    if saved is not None:
        return saved, f"precision={saved}, as in the checkpoint"
    chosen = FP32 if slower else BF16
    return chosen, f"precision={chosen}, by the CPUs"
