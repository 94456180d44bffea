"""Train as Horovod's PyTorch guide shows, call every function, and write the results."""

import sys
from typing import Any

import horovod.torch as hvd
import report
import torch
from torch.nn.functional import mse_loss

answer: dict[str, Any] = {"too early": report.error_of(hvd.rank)}
hvd.init()
hvd.init()
rank, size = hvd.rank(), hvd.size()
answer["place"] = [rank, size, hvd.local_rank(), hvd.local_size()]
torch.manual_seed(0)
inputs, targets = torch.randn(32, 20), torch.randn(32, 3)
rows = slice(rank * 32 // size, (rank + 1) * 32 // size)


def network(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(20, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))


def flat(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def same_everywhere(tensor: torch.Tensor) -> bool:
    return bool(torch.equal(hvd.allreduce(tensor, op=hvd.Min), hvd.allreduce(tensor, op=hvd.Max)))


model, alone = network(rank), network(0)  # ranks start apart on purpose
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
answer["parameters"] = torch.equal(flat(model), flat(alone))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01 * (rank + 1))
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
answer["learning_rate"] = optimizer.param_groups[0]["lr"]
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
single = torch.optim.Adam(alone.parameters(), lr=0.01)
for _ in range(4):
    for net, opt, part in ((model, optimizer, rows), (alone, single, slice(None))):
        opt.zero_grad()
        mse_loss(net(inputs[part]), targets[part]).backward()
        opt.step()
answer["weight_error"] = float((flat(model) - flat(alone)).abs().max())
answer["gradient_error"] = float((model[0].weight.grad - alone[0].weight.grad).abs().max())
answer["ranks_equal"] = same_everywhere(flat(model))

other = torch.optim.Adam(model.parameters(), lr=0.5)
other.load_state_dict(
    optimizer.state_dict() if rank == 0 else torch.optim.Adam(model.parameters()).state_dict()
)
hvd.broadcast_optimizer_state(other, root_rank=0)
moments = torch.cat(
    [other.state[parameter]["exp_avg"].flatten() for parameter in model.parameters()]
)
answer["optimizer_state"] = same_everywhere(moments) and bool(moments.abs().sum() > 0)

mse_loss(model(inputs[rows]), targets[rows]).backward()
answer["set_to_none"] = report.error_of(lambda: optimizer.zero_grad(set_to_none=True))
answer["zero_grad"] = report.error_of(optimizer.zero_grad)
optimizer.synchronize()
torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
with optimizer.skip_synchronize():
    optimizer.step()
answer["ranks_equal_after_clipping"] = same_everywhere(flat(model))
optimizer.zero_grad()
mse_loss(model(inputs[rows]), targets[rows]).backward()
answer["two passes"] = report.error_of(
    lambda: mse_loss(model(inputs[rows]), targets[rows]).backward()
)

used = torch.nn.Linear(2, 1)
half = hvd.DistributedOptimizer(
    torch.optim.SGD(used.parameters(), lr=0.0),
    compression=hvd.Compression.fp16,
    backward_passes_per_step=2,
)
for _ in range(2 if rank == 0 else 0):  # only rank 0 has a gradient
    used(torch.ones(1, 2)).sum().backward()
half.step()
answer["missing gradient"] = used.weight.grad.tolist()

stepped = torch.optim.Adam(used.parameters())
stepped.step()
stepped.step()
fresh = hvd.DistributedOptimizer(stepped)
answer["state"] = [len(stepped.state), len(fresh.state)]
hvd.broadcast_optimizer_state(fresh, root_rank=0)
answer["filled"] = [float(state["step"]) for state in fresh.state.values()]

own = torch.tensor([rank + 1.0, 2.0 * (rank + 1)])
answer["ops"] = {
    op.value: hvd.allreduce(own, op=op).tolist() for op in (hvd.Average, hvd.Sum, hvd.Min, hvd.Max)
}
answer["average=False"] = hvd.allreduce(own, average=False, name="own").tolist()
answer["both"] = report.error_of(lambda: hvd.allreduce(own, average=True, op=hvd.Sum))
answer["adasum"] = report.error_of(lambda: hvd.allreduce(own, op=hvd.Adasum))
answer["grouped"] = [
    tensor.tolist() for tensor in hvd.grouped_allreduce([own, torch.tensor([rank])], op=hvd.Sum)
]
for dtype in (torch.float16, torch.bfloat16, torch.float64):
    reduced = hvd.allreduce(own.to(dtype))
    answer[str(dtype)] = [str(reduced.dtype), reduced.tolist()]
inplace = own.clone()
hvd.allreduce_(inplace)
answer["in place"] = inplace.tolist()
answer["gathered"] = hvd.allgather(torch.full((rank + 1,), rank)).tolist()
answer["broadcast"] = hvd.broadcast(own, root_rank=1).tolist()
answer["no such rank"] = report.error_of(lambda: hvd.broadcast_(own, root_rank=size))
answer["objects"] = [hvd.broadcast_object({"rank": rank}, root_rank=1), hvd.allgather_object(rank)]
answer["names"] = report.error_of(
    lambda: hvd.DistributedOptimizer(single, named_parameters=[("weight", alone[0].weight)])
)
answer["built"] = [hvd.mpi_built(), hvd.gloo_built(), hvd.nccl_built()]
hvd.barrier()
hvd.shutdown()
answer["initialized"] = hvd.is_initialized()
answer["tensorflow"] = "tensorflow" in sys.modules
report.write(rank, answer)
