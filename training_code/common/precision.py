"""Decide whether a run computes in float32, or its convolutions and products in bfloat16."""

from __future__ import annotations

import torch

from common import cpu
from common.ranks import Ranks

FP32, BF16 = "fp32", "bf16"


def choose(precision: str, saved: str | None, ranks: Ranks) -> tuple[str, str]:
    """Return fp32 or bf16, the same on all ranks, and the reason as one line for the log.

    `precision` is fp32, bf16, or auto, which keeps that of the checkpoint, `saved`. A CPU computes
    faster in bfloat16 if it has AMX. With avx512_bf16 alone it is slower: on an Intel Xeon 13,900
    images/s against 20,600 in float32 (2026-11).
    """
    if precision != "auto":
        return precision, f"precision={precision}, as asked for"
    if ranks.device.type == "cuda":
        # is_bf16_supported() is true of GPUs that emulate it, too
        chosen = BF16 if torch.cuda.get_device_capability(ranks.device) >= (8, 0) else FP32
        return chosen, f"precision={chosen}, by the GPU"
    # Every rank takes part, also one whose host has no checkpoint or another CPU.
    (without,) = ranks.sum(not cpu.has_amx())
    if saved is not None:
        return saved, f"precision={saved}, as in the checkpoint"
    chosen, cause = (FP32, "a CPU has no AMX") if without else (BF16, "every CPU has AMX")
    return chosen, f"precision={chosen}, because {cause}"
