"""Train like an smddp script for a few steps; write whether the ranks agree and whether gradients equal the full batch's."""

import json
import os
import sys
from pathlib import Path

import smdistributed.dataparallel.torch.torch_smddp  # noqa: F401
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(backend="smddp")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
inputs, targets = torch.randn(32, 20), torch.randn(32, 3)
mine = slice(rank * 32 // size, (rank + 1) * 32 // size)

linear, whole = nn.Linear(20, 3), nn.Linear(20, 3)
whole.load_state_dict(linear.state_dict())
linear_parallel = DistributedDataParallel(linear)
mse_loss(linear_parallel(inputs[mine]), targets[mine]).backward()
mse_loss(whole(inputs), targets).backward()

torch.manual_seed(rank)  # ranks start apart on purpose: DistributedDataParallel gives all of them rank 0's weights
network = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 3))
parallel = DistributedDataParallel(network)
optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
for _ in range(5):
    optimizer.zero_grad()
    with parallel.no_sync():
        mse_loss(parallel(inputs[mine]), targets[mine]).backward()
    mse_loss(parallel(inputs[mine]), targets[mine]).backward()
    optimizer.step()
weights = torch.cat([parameter.detach().flatten() for parameter in network.parameters()])
everyone = [torch.empty_like(weights) for _ in range(size)]
dist.all_gather(everyone, weights)

if rank == 0:
    answer = {
        "gradient_error": float((linear.weight.grad - whole.weight.grad).abs().max()),
        "ranks_equal": all(torch.equal(other, weights) for other in everyone),
        "variables": {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR")},
    }
    Path(sys.argv[1]).write_text(json.dumps(answer))
dist.destroy_process_group()
