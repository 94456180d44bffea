"""The calls of AWS's published PyTorch example for smddp, in its order, for any device.

The example: amazon-sagemaker-examples, training/distributed_training/pytorch/data_parallel/mnist.
Like it, this joins while it is imported, evaluates on rank 0 only, saves on every rank and never
leaves. Rank 0 writes the results.
"""

import sys
from pathlib import Path
from typing import Any

import report
import smdistributed.dataparallel.torch.distributed as dist
import torch
from smdistributed.dataparallel.torch.parallel.distributed import DistributedDataParallel
from torch.nn import functional
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group()


def train(model: Any, device: torch.device, loader: Any, optimizer: torch.optim.Optimizer) -> None:
    model.train()
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        functional.nll_loss(model(images), labels).backward()
        optimizer.step()


def test(model: Any, device: torch.device, loader: Any) -> float:
    model.eval()
    right = 0
    with torch.no_grad():
        for images, labels in loader:
            right += int((model(images.to(device)).argmax(dim=1) == labels.to(device)).sum())
    return right / len(loader.dataset)


world_size, rank, local_rank = dist.get_world_size(), dist.get_rank(), dist.get_local_rank()
torch.manual_seed(1)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
file = Path(sys.argv[1]).with_name("data.pt")
if local_rank == 0:  # one rank per host fetches the data
    labels = torch.arange(400) % 2
    torch.save((torch.randn(400, 1, 8, 8) + labels[:, None, None, None], labels), file)
dist.barrier()
dataset = TensorDataset(*torch.load(file))

sampler = DistributedSampler(dataset, num_replicas=world_size, rank=rank)
loader = DataLoader(
    dataset,
    batch_size=20,
    shuffle=False,
    num_workers=2,
    pin_memory=torch.cuda.is_available(),
    sampler=sampler,
)
network = torch.nn.Sequential(
    torch.nn.Conv2d(1, 4, 3),
    torch.nn.ReLU(),
    torch.nn.Dropout2d(0.1),
    torch.nn.Flatten(),
    torch.nn.Linear(144, 2),
    torch.nn.LogSoftmax(1),
)
model = DistributedDataParallel(network.to(device))
if device.type == "cuda":
    torch.cuda.set_device(local_rank)
    model.cuda(local_rank)
optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
accuracy = []
for _ in range(3):
    train(model, device, loader, optimizer)
    if rank == 0:
        accuracy.append(test(model, device, DataLoader(dataset, batch_size=100, shuffle=True)))
    scheduler.step()
torch.save(model.state_dict(), Path(sys.argv[1]).with_name(f"model-{rank}.pt"))
dist.barrier()
if rank == 0:
    saved = [
        torch.load(Path(sys.argv[1]).with_name(f"model-{each}.pt")) for each in range(world_size)
    ]
    equal = all(torch.equal(saved[0][name], each[name]) for each in saved for name in saved[0])
    report.write(rank, {"accuracy": accuracy, "equal": equal, "names": sorted(saved[0])})
