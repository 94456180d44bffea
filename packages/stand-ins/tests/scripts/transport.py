"""AllReduce in every type, size and layout; write the wrong results and gloo's own calls."""

import itertools
from collections.abc import Callable
from typing import Any

import report
import smdistributed.dataparallel.torch.torch_smddp  # noqa: F401
import torch
import torch.distributed as dist

TYPES = (
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.int8,
    torch.uint8,
    torch.int32,
    torch.int64,
)
SIZES = (0, 1, 3, 1000, 65_537, 1_000_003)
Combine = Callable[[list[float]], float]
OPERATIONS: dict[str, Combine] = {
    "SUM": sum,
    "PRODUCT": lambda values: values[0] * values[1],
    "MIN": min,
    "MAX": max,
}

dist.init_process_group(backend="smddp")
rank = dist.get_rank()
asked_of_gloo: list[str] = []


class Counting:
    """gloo that notes each of its AllReduces."""

    def __init__(self, gloo: Any) -> None:
        self.gloo = gloo

    def allreduce(self, tensors: list[torch.Tensor], *options: Any) -> Any:
        asked_of_gloo.extend(str(tensor.dtype) for tensor in tensors)
        return self.gloo.allreduce(tensors, *options)


def filled(dtype: torch.dtype, size: int, of_rank: int) -> torch.Tensor:
    """Return small whole numbers that differ by rank and place: exact in every type."""
    return (torch.arange(size) % 5 + 1 + of_rank).to(dtype)


transport: Any = getattr(dist.group.WORLD, "transport", None)
if hasattr(transport, "_fallback"):
    transport._fallback = Counting(transport._fallback)

wrong = []
for dtype, size, (name, combine) in itertools.product(TYPES, SIZES, OPERATIONS.items()):
    tensor = filled(dtype, size, rank)
    dist.all_reduce(tensor, op=getattr(dist.ReduceOp, name))
    expected = [
        combine([left, right])
        for left, right in zip(*(filled(dtype, 5, other).tolist() for other in (0, 1)), strict=True)
    ]
    expected_tensor = torch.tensor(expected).to(dtype).repeat(size // 5 + 1)[:size]
    if tensor.dtype != dtype or not torch.equal(tensor, expected_tensor):
        wrong.append(f"{name} of {size} {dtype}")

columns = torch.arange(12.0).reshape(3, 4).t()
dist.all_reduce(columns)
pictures = torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last)
handle = dist.all_reduce(pictures[:, 1:], async_op=True)
handle.wait()
part = torch.zeros(10)
dist.all_reduce(part[2:5].fill_(1.0))

answers = {
    "transport": type(transport).__name__,
    "wrong": wrong,
    "columns": bool(torch.equal(columns, 2 * torch.arange(12.0).reshape(3, 4).t())),
    "pictures": pictures[:, :, 0, 0].tolist(),
    "done": handle.is_completed(),
    "part": part.tolist(),
    "asked_of_gloo": sorted(set(asked_of_gloo)),
}
report.write(rank, answers)
dist.destroy_process_group()
