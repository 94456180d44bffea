"""Decide whether a run computes in float32, or its convolutions and products in bfloat16."""

from __future__ import annotations

from pathlib import Path

import torch

from common.ranks import Ranks


def choose(precision: str, saved: str | None, ranks: Ranks) -> tuple[str, str]:
    """Return fp32 or bf16, the same on all ranks, and the reason as one line for the log.

    `precision` is fp32, bf16, or auto, which keeps that of the checkpoint, `saved`, and else takes
    bf16 if all devices are faster in it.
    """
    reason = "as asked for"
    if precision == "auto":
        # Every rank takes part, also one whose host has no checkpoint or another CPU.
        (slower,) = ranks.sum(not is_faster_in_bf16(ranks.device))
        precision, reason = "fp32" if slower else "bf16", "by the devices"
        if saved is not None:
            precision, reason = saved, "as in the checkpoint"
    return precision, f"precision={precision}, {reason}"


def computes_bf16(device: torch.device) -> bool:
    """Return whether the device has instructions for bfloat16; others emulate it, slowly."""
    if device.type == "cuda":
        # is_bf16_supported() is true of GPUs that emulate it, too
        return bool(torch.cuda.get_device_capability(device) >= (8, 0))
    return _cpu_has("_is_avx512_bf16_supported") or _cpu_has("_is_amx_tile_supported")


def is_faster_in_bf16(device: torch.device) -> bool:
    """Return whether MNIST's network trains faster in bfloat16: on GPUs that compute in it, with
    AMX, and with the AVX512-BF16 of AMD.

    Images a second in bfloat16 and in float32: 5,361 and 2,860 on an AMD Zen 5 (at 77a74b74), but
    13,900 and 20,600 on an Intel Xeon that has AVX512-BF16 and no AMX (2026-11).
    """
    if device.type == "cuda" or _cpu_has("_is_amx_tile_supported"):
        return computes_bf16(device)
    cpus = Path("/proc/cpuinfo")
    is_amd = cpus.is_file() and "AuthenticAMD" in cpus.read_text()  # not on macOS
    return is_amd and computes_bf16(device)


def _cpu_has(check: str) -> bool:
    """Ask one of torch's private functions, which older versions lack."""
    return bool(getattr(torch.cpu, check, lambda: False)())
