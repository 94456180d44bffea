"""All-reduce and end at once, with the process group still open.

Without the stand-in's care gloo's threads abort then.
"""

import smdistributed.dataparallel.torch.torch_smddp  # noqa: F401
import torch
import torch.distributed as dist

dist.init_process_group(backend="smddp")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(50, 50))
for _ in range(5):
    model(torch.randn(4, 50)).sum().backward()
dist.all_reduce(torch.ones(3))
