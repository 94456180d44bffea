"""Ranks that sum their numbers through torch.distributed; with --kill-rank N that rank kills
itself, with --kill-host NAME that host dies while the ranks of the others wait for its own. Backend
from --backend.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import socket
from pathlib import Path

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="gloo")
parser.add_argument("--kill-rank", type=int, default=-1)
parser.add_argument("--kill-host", default="")
options, _ = parser.parse_known_args()
if options.backend == "smddp":
    importlib.import_module("smdistributed.dataparallel.torch.torch_smddp")
dist.init_process_group(backend=options.backend)
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
if dist.get_rank() == options.kill_rank:
    os.kill(os.getpid(), signal.SIGKILL)
if (
    options.kill_host
    and options.kill_host == socket.gethostname()
    and os.environ["LOCAL_RANK"] == "0"
):
    # Every process of this host but its first: outside of the emulator's containers that would be
    # every process of the machine.
    assert "shoal_local.sagemaker.container.pod" in Path("/proc/1/cmdline").read_text(), (
        "not in a container of the emulator"
    )
    os.kill(-1, signal.SIGKILL)
dist.barrier()
if dist.get_rank() == 0:
    here = os.environ.get("LOCAL_WORLD_SIZE")
    print(
        f"world_size={dist.get_world_size()} on_this_host={here} sum={total.item():.0f}", flush=True
    )
    Path(os.environ["SM_MODEL_DIR"], "model.txt").write_text(
        f"{dist.get_world_size()} {total.item():.0f}"
    )
    stated = os.environ["SM_DLC_TORCH_VERSION"]
    assert stated == torch.__version__, (
        f"the toolkit said that PyTorch is {stated}; it is {torch.__version__}"
    )
dist.destroy_process_group()
