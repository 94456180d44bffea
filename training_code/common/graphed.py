"""A step of small kernels as one CUDA graph: launching them one by one takes longer than they do.

Run on one H100 by `make bench-gpu` in this form (2026-11: 722,000 images/s of MNIST, 88,000 without
it); the scripts that use it have not met a GPU since.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from common.ranks import Ranks

WARM_UP_CALLS = 3
"""What a capture must not see is done in these: libraries choose kernels, and allocate."""


def new_rate(ranks: Ranks) -> float | torch.Tensor:
    """Return the first rate of a step that can be one graph as a tensor of its GPU, which the graph
    reads; of another step, which sends messages or runs on a CPU, as a number.
    """
    is_alone = ranks.device.type == "cuda" and ranks.world_size == 1 and ranks.backend == "nccl"
    return torch.zeros((), device=ranks.device) if is_alone else 0.0


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the rate of the next step."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def graphed(
    function: Callable[..., torch.Tensor],
    optimizer: torch.optim.Optimizer,
    say: Callable[[str], object],
) -> Callable[..., torch.Tensor]:
    """Return a step as a graph, if its rate is a tensor of the GPU; else as it is."""
    on_gpu = isinstance(optimizer.param_groups[0]["lr"], torch.Tensor)
    return Graphed(function, say) if on_gpu else function


class Graphed:
    """A function of tensors whose shapes stay, captured in its fourth call (PyTorch's guide to CUDA
    graphs). Before, and where it cannot be captured, it runs as it is.

    What it returns is overwritten by the next call.
    """

    def __init__(self, function: Callable[..., torch.Tensor], say: Callable[[str], object]) -> None:
        self._function, self._say = function, say
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, *tensors: torch.Tensor) -> torch.Tensor:
        """Return what the function gives for these tensors."""
        self._calls += 1
        if self._calls == WARM_UP_CALLS + 1:
            self._capture(tensors)
        if self._graph is not None:
            for kept, new in zip(self._inputs, tensors, strict=True):
                kept.copy_(new)
            self._graph.replay()
            return self._output
        if self._calls > WARM_UP_CALLS or not torch.cuda.is_available():
            return self._function(*tensors)
        here, aside = torch.cuda.current_stream(), torch.cuda.Stream()
        aside.wait_stream(here)
        with torch.cuda.stream(aside):
            result = self._function(*tensors)
        here.wait_stream(aside)
        return result

    def _capture(self, tensors: tuple[torch.Tensor, ...]) -> None:
        """Record the function; nothing of it is computed."""
        self._inputs = tuple(each.clone() for each in tensors)
        here = torch.cuda.current_stream() if torch.cuda.is_available() else None
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._output = self._function(*self._inputs)
        except RuntimeError as error:
            if here is not None:  # torch leaves its own stream current where capture_end() raises
                torch.cuda.set_stream(here)
            self._say(f"graph=none, steps are launched kernel by kernel: {error}")
        else:
            self._graph = graph
