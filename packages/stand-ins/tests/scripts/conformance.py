"""Train as AWS documents for PyTorch, on any number of ranks, in strict mode; write the results."""

import os
import sys
from collections.abc import Callable
from typing import Any

import report
import smdistributed.dataparallel.torch.torch_smddp  # noqa: F401
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.algorithms.join import Join
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

# The form of AWS's own tests.
dist.init_process_group(
    "smddp",
    world_size=int(os.environ["WORLD_SIZE"]),
    rank=int(os.environ["RANK"]),
    store=None,
    group_name="",
)
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
inputs, targets = torch.randn(32, 20), torch.randn(32, 3)
rows = slice(rank * 32 // size, (rank + 1) * 32 // size)


class Network(nn.Module):  # type: ignore[misc, unused-ignore] # untyped where torch is not installed
    """A small network with a layer that forward() may leave out."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.body = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))
        self.unused = nn.Linear(20, 3)

    def forward(self, rows: torch.Tensor, everything: bool = True) -> torch.Tensor:
        return self.body(rows) + (self.unused(rows) if everything else 0)


def flat(model: nn.Module, of: Callable[[nn.Parameter], torch.Tensor | None]) -> torch.Tensor:
    parts = [of(parameter) for parameter in model.parameters()]
    return torch.cat([part.detach().float().flatten() for part in parts if part is not None])


def backward(model: nn.Module, everything: bool = True) -> None:
    dtype = next(model.parameters()).dtype
    mse_loss(model(inputs[rows].to(dtype), everything), targets[rows].to(dtype)).backward()


def gradient(model: nn.Module) -> torch.Tensor:
    return flat(model, lambda parameter: parameter.grad)


def error(model: nn.Module, everything: bool = True, passes: int = 1) -> float:
    """Return how far this rank's gradient is from one process's with the whole batch."""
    whole = Network()
    mse_loss(whole(inputs, everything), targets).backward()
    return float((gradient(model) - passes * gradient(whole)).abs().max())


def gathered(tensor: torch.Tensor) -> list[torch.Tensor]:
    everyone = [torch.empty_like(tensor) for _ in range(size)]
    dist.all_gather(everyone, tensor)
    return everyone


def ranks_equal(model: nn.Module) -> bool:
    weights = flat(model, lambda parameter: parameter)
    return all(torch.equal(other, weights) for other in gathered(weights))


plain = DistributedDataParallel(Network())
backward(plain)
answer: dict[str, Any] = {"gradients": error(plain)}

options = DistributedDataParallel(
    Network(), find_unused_parameters=True, gradient_as_bucket_view=True, broadcast_buffers=False
)
backward(options, everything=False)
answer["options"] = error(options, everything=False)

half = DistributedDataParallel(Network().to(torch.bfloat16))
backward(half)
answer["bf16"] = error(half)

compressed = DistributedDataParallel(Network())
compressed.register_comm_hook(None, fp16_compress_hook)
backward(compressed)
answer["fp16"] = error(compressed)

accumulated = DistributedDataParallel(Network())
with accumulated.no_sync():
    backward(accumulated)
answer["no_sync"] = {
    "alone": all(
        torch.equal(other, gradient(accumulated)) for other in gathered(gradient(accumulated))
    )
}
backward(accumulated)
answer["no_sync"]["error"] = error(accumulated, passes=2)

uneven = DistributedDataParallel(
    Network(seed=rank)
)  # ranks start apart on purpose, and rank r has r + 1 batches
optimizer = torch.optim.SGD(uneven.parameters(), lr=0.1)
with Join([uneven]):
    for _ in range(rank + 1):
        optimizer.zero_grad()
        backward(uneven)
        optimizer.step()
answer["uneven inputs"] = ranks_equal(uneven)

network = DistributedDataParallel(Network(seed=rank))
optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
for _ in range(5):
    optimizer.zero_grad()
    backward(network)
    optimizer.step()
answer["ranks equal"] = ranks_equal(network)


def reduced(
    value: float, dtype: torch.dtype, op: dist.ReduceOp.RedOpType = dist.ReduceOp.SUM
) -> float:
    tensor = torch.full((3,), value, dtype=dtype)
    dist.all_reduce(tensor, op, async_op=True).wait()
    return float(tensor[2])


answer["sums"] = {
    str(dtype): reduced(rank + 1.0, dtype)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.int64)
}
answer["extremes"] = [
    reduced(rank + 1.0, torch.float32, op) for op in (dist.ReduceOp.MIN, dist.ReduceOp.MAX)
]
last = torch.full((2,), float(rank))
dist.broadcast(last, src=size - 1)
total = torch.full((2,), rank + 1.0)
dist.reduce(total, dst=0)
answer["broadcast"], answer["reduce"] = float(last[0]), float(total[0])
answer["variables"] = {
    name: os.environ.get(name)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR")
}
answer["gathered"] = [int(item) for item in gathered(torch.tensor([rank]))]
dist.barrier()
answer["tensorflow"] = "tensorflow" in sys.modules
report.write(rank, answer)
dist.destroy_process_group()
