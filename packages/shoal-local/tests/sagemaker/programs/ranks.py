"""Ranks that sum their numbers through torch.distributed; the first one writes the sum down."""

from __future__ import annotations

import os
from pathlib import Path

import torch
import torch.distributed as dist

dist.init_process_group(backend="gloo")
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
if dist.get_rank() == 0:
    text = f"{dist.get_world_size()} {total.item():.0f}"
    Path(os.environ["SM_MODEL_DIR"], "model.txt").write_text(text)
    stated = os.environ["SM_DLC_TORCH_VERSION"]
    assert stated == torch.__version__, (
        f"the toolkit said that PyTorch is {stated}; it is {torch.__version__}"
    )
dist.destroy_process_group()
