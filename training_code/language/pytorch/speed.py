"""What a step computes, and what the device could have computed meanwhile."""

from __future__ import annotations

import time

import torch
from model import Config, Transformer

GPU_FLOPS = {
    "A100": 312e12,
    "A10G": 70e12,
    "B200": 2250e12,
    "H100": 989e12,
    "H200": 989e12,
    "L40S": 362e12,
    "L4": 121e12,
}
"""Operations per second in dense bf16, from NVIDIA's data sheets (read, not measured here)."""
_SIZES, _ROUNDS = {"cpu": 512, "cuda": 8192}, 4
"""Of the matrices that are multiplied: larger ones are not faster on one core of a CPU."""


def computes_bf16(device: torch.device) -> bool:
    """Return whether the device has instructions for bfloat16; others emulate it, slowly."""
    if device.type == "cuda":
        return bool(torch.cuda.get_device_capability(device) >= (8, 0))
    # AVX512-BF16 or AMX; both are private names of torch, and a version without them has neither
    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, name, bool)() for name in names)


def flops_per_token(config: Config) -> float:
    """Return the operations of forward and backward for a token of a full sequence.

    6 for each weight that is multiplied, and 12 x layers x width x context for attention, without
    a discount for causality (PaLM, arXiv 2204.02311, appendix B). What activation checkpointing
    computes again does not count, so that utilization is of the model's operations: MFU.
    """
    with torch.device("meta"):
        model = Transformer(config)
    weights = sum(each.numel() for each in model.parameters())
    if not config.tie_word_embeddings:  # only looked up
        weights -= model.model.embed_tokens.weight.numel()
    attention = config.num_hidden_layers * config.hidden_size * config.max_position_embeddings
    return float(6 * weights + 12 * attention)


def peak_flops(device: torch.device, precision: str) -> tuple[float, str]:
    """Return the operations per second that a rank's device could do, and where that is from.

    A GPU that the table lacks, another precision and a CPU are measured, by products of matrices.
    """
    if device.type == "cuda" and precision == "bf16":
        name = torch.cuda.get_device_name(device)
        for model, flops in GPU_FLOPS.items():
            if model in name.replace("-", " ").split():
                return flops, f"data sheet of {model}"
    size = _SIZES[device.type]
    return _measured(device, precision, size), f"measured with matrices of {size}"


def _measured(device: torch.device, precision: str, size: int) -> float:
    dtypes = {"bf16": torch.bfloat16, "float64": torch.float64}
    matrix = torch.ones(size, size, dtype=dtypes.get(precision, torch.float32), device=device)
    best_s = float("inf")
    for _ in range(_ROUNDS):
        started_at = time.perf_counter()
        (matrix @ matrix)[0, 0].item()  # waits for the device
        best_s = min(best_s, time.perf_counter() - started_at)
    return 2 * size**3 / best_s
