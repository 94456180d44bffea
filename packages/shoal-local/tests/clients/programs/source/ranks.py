"""Sum the ranks with gloo and write what each of them saw."""

from __future__ import annotations

import os
from pathlib import Path

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank())])
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} sum {total.item():g}", flush=True)
if dist.get_rank() == 0:
    path = Path(os.environ["SM_MODEL_DIR"]) / "ranks.txt"
    path.write_text(f"{dist.get_world_size()} ranks, sum {total.item():g}")
dist.destroy_process_group()
