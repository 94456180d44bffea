"""What a step computes, what the device could have computed meanwhile, and where time goes."""

import itertools
import time
import timeit
from collections.abc import Callable
from typing import Any

import torch
from config import Config

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
PARTS = ("data", "forward", "backward", "optimizer", "metrics", "checkpoint", "other")
"""The parts of a step; messages between ranks are in forward and backward."""


def flops_per_token(config: Config) -> float:
    """Return the operations of forward and backward for a token of a full sequence.

    6 for each weight that is multiplied, and 12 x layers x width x context for attention, without
    a discount for causality (PaLM, arXiv 2204.02311, appendix B). What activation checkpointing
    computes again does not count, so that utilization is of the model's operations: MFU.
    """
    weights = config.weights
    if not config.tie_word_embeddings:  # only looked up
        weights -= config.vocab_size * config.hidden_size
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
    size, dtypes = _SIZES[device.type], {"bf16": torch.bfloat16, "float64": torch.float64}
    matrix = torch.ones(size, size, dtype=dtypes.get(precision, torch.float32), device=device)
    # .item() waits for the device
    times_s = timeit.repeat(lambda: (matrix @ matrix)[0, 0].item(), number=1, repeat=_ROUNDS)
    return 2 * size**3 / min(times_s), f"measured with matrices of {size}"


def goodput(productive_s: float, first_started_at: float) -> float:
    """Return the share of the wall clock since a job's first start that went into steps that count.

    That is the runtime goodput of Google's ML Productivity Goodput (arXiv 2502.06982): a step that
    is computed again after a restart counts once. What does not count is starting, waiting for
    checkpoints, steps that were lost, and the time between two starts.
    """
    return productive_s / max(time.time() - first_started_at, productive_s, 1e-9)


class Stopwatch:
    """Measures the parts of a number of steps; the first step, which allocates, is left out.

    On a GPU a part lasts from one CUDA event of the stream to the next, because a call returns
    before the GPU has done its work.
    """

    def __init__(self, device: torch.device, steps: int, say: Callable[[str], object]) -> None:
        self._device, self._steps, self._say = device, steps, say
        self._begun = -1
        self._moments: list[tuple[str, Any]] = []

    def begin_step(self) -> None:
        """Begin a step, and say where the time of the steps went once all are measured."""
        self._begun += 1
        self.mark("other")
        if self._steps and self._begun > self._steps:
            self._say(self._line())
            self._steps, self._moments = 0, []

    def mark(self, part: str) -> None:
        """End a part of a step, which began at the mark before."""
        if self._steps and self._begun > 0:
            self._moments.append((part, self._now()))

    def _now(self) -> Any:
        if self._device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _line(self) -> str:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        parts_ms = dict.fromkeys(PARTS, 0.0)
        for (_, start), (part, end) in itertools.pairwise(self._moments):
            cuda = self._device.type == "cuda"
            parts_ms[part] += start.elapsed_time(end) if cuda else (end - start) * 1000
        parts_ms["whole"] = sum(parts_ms.values())
        parts = " ".join(f"{part}={ms / self._steps:.2f}" for part, ms in parts_ms.items())
        return f"milliseconds of a step of rank 0, mean of {self._steps}: {parts}"
