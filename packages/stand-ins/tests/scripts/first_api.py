"""Use the API of smddp 1.0 to 1.3 and write what its functions return.

Never leaves the group: scripts of its time could not.
"""

import inspect
from typing import Any

import report
import smdistributed.dataparallel.torch.distributed as dist
import torch
from smdistributed.dataparallel.torch.parallel.distributed import DistributedDataParallel

SHOWN = {dist.group.WORLD: "group.WORLD"}
answer: dict[str, Any] = {
    "available": dist.is_available(),
    "too early": report.error_of(dist.get_rank),
}
dist.init_process_group()
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(4, 2), broadcast_buffers=False)
model(torch.ones(2, 4) * (rank + 1)).sum().backward()
answer["gradient"] = model.module.weight.grad[0].tolist()

accumulated = DistributedDataParallel(torch.nn.Linear(4, 2), find_unused_parameters=True)
with accumulated.no_sync():
    accumulated(torch.ones(2, 4) * (rank + 1)).sum().backward()
answer["alone"] = accumulated.module.weight.grad[0].tolist()
accumulated(torch.ones(2, 4) * (rank + 1)).sum().backward()
answer["synchronised"] = accumulated.module.weight.grad[0].tolist()

average = torch.full((1,), rank + 1.0)
dist.all_reduce(average, op=dist.ReduceOp.AVERAGE)
total = torch.full((1,), rank + 1.0)
dist.all_reduce(total, op=None, async_op=True).wait()
lowest, highest = torch.full((1,), float(rank)), torch.full((1,), float(rank))
dist.all_reduce(lowest, op=dist.ReduceOp.MIN)
dist.all_reduce(highest, op=dist.ReduceOp.MAX)
sent = torch.full((2,), float(rank))
dist.broadcast(sent, src=1)
received = torch.empty(2)
dist.all_to_all_single(received, torch.tensor([10.0 * rank, 10.0 * rank + 1]))
gathered = [torch.zeros(1) for _ in range(dist.get_world_size())]
dist.all_gather(gathered, torch.full((1,), float(rank)))
answer |= {
    "average": average.item(),
    "total": total.item(),
    "gathered": [item.item() for item in gathered],
}
answer |= {
    "extremes": [lowest.item(), highest.item()],
    "broadcast": sent.tolist(),
    "exchanged": received.tolist(),
}
answer["local_rank"] = dist.get_local_rank()
answer["accumulation"] = report.error_of(
    lambda: DistributedDataParallel(torch.nn.Linear(1, 1), gradient_accumulation_steps=4)
)
answer["unknown"] = report.error_of(
    lambda: DistributedDataParallel(torch.nn.Linear(1, 1), static_graph=True)
)
answer["signatures"] = {
    name: report.signature_of(function, SHOWN)
    for name, function in vars(dist).items()
    if inspect.isfunction(function)
}
answer["wrapper"] = report.signature_of(DistributedDataParallel, SHOWN)
answer["group"] = report.error_of(lambda: dist.barrier(group=object()))
dist.barrier()
report.write(rank, answer)
