"""Train with both of PyTorch's FSDPs; write how far they are from one process with all rows."""

import report
import smdistributed.dataparallel.torch.torch_smddp  # noqa: F401
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.functional import mse_loss

dist.init_process_group("smddp")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
inputs, targets = torch.randn(32, 20), torch.randn(32, 3)
rows = slice(rank * 32 // size, (rank + 1) * 32 // size)


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))


def train(model: nn.Module, rows: slice) -> torch.Tensor:
    """Return the trained model's outputs for all rows.

    They tell its weights without gathering them.
    """
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        mse_loss(model(inputs[rows]), targets[rows]).backward()
        optimizer.step()
    with torch.no_grad():
        return model(inputs)


alone = train(network(), slice(None))
sharded = network()
fully_shard(sharded)
held = sum(parameter.to_local().numel() for parameter in sharded.parameters())
answer = {
    "shard": held / sum(parameter.numel() for parameter in network().parameters()),
    "FullyShardedDataParallel": float(
        (train(FullyShardedDataParallel(network(), device_id=torch.device("cpu")), rows) - alone)
        .abs()
        .max()
    ),
    "fully_shard": float((train(sharded, rows) - alone).abs().max()),
}
report.write(rank, answer)
dist.destroy_process_group()
