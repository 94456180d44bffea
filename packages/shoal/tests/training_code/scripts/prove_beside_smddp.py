"""Ask which network a job with smddp uses, as a rank with a GPU would.

The probe before the job runs over gloo and NCCL's log is given, because here are no GPUs.
"""

from __future__ import annotations

import dataclasses
import os

import torch
from common import fabric
from common.ranks import choose_backend, joined

probed = fabric.ask("gloo", os.environ)
without_nccl = fabric.ask("nccl", os.environ)
with joined(choose_backend("auto", os.environ), os.environ) as ranks:
    as_gpu = dataclasses.replace(ranks, device=torch.device("cuda", 0))
    seen = fabric.look(as_gpu, {"NCCL_DEBUG_FILE": "nowhere.%p.log"})
    ranks.say(f"backend={ranks.backend} seen={seen.provider}")
    fabric.prove(ranks, os.environ, probed)
    ranks.say(f"failed={without_nccl.provider} {without_nccl.evidence}")
