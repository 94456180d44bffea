"""Run collective after collective, each with fresh tensors.

gloo's thread lets go of the last one's while the next one begins.
"""

import warnings

import report
import smdistributed.dataparallel.torch.torch_smddp  # noqa: F401
import torch
import torch.distributed as dist

TIMES = 500

warnings.simplefilter("ignore", FutureWarning)
dist.init_process_group(backend="smddp")
rank, size = dist.get_rank(), dist.get_world_size()
right = 0
for turn in range(TIMES):
    dist.broadcast(announced := torch.full((4,), float(turn if rank == 0 else -1)), 0)
    dist.barrier()
    dist.all_gather(parts := [torch.empty(4) for _ in range(size)], torch.full((4,), float(rank)))
    right += bool((announced == turn).all()) and all(
        bool((part == source).all()) for source, part in enumerate(parts)
    )
report.write(rank, {"right": right, "of": TIMES})
dist.destroy_process_group()
