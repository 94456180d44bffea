"""Lets torchtitan 0.3.0 run on CPUs. It knows accelerators alone. Import it before torchtitan."""

import os
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import torch

if not torch.cuda.is_available():
    torch.cpu.get_device_name = lambda _: "CPU"
    torch.cpu.get_device_properties = lambda _: SimpleNamespace(total_memory=1)
    torch.cpu.current_device = lambda: 0
    torch.cpu.memory_stats = lambda _: {}
    torch.cpu.empty_cache = torch.cpu.reset_peak_memory_stats = lambda: None
    torch._utils._get_available_device_type = lambda: "cpu"
    # of experts, in Triton, which PyTorch for CPUs lacks
    sys.modules["torchtitan.distributed.minimal_async_ep.kernels"] = Mock()
    os.environ["TORCH_COMPILE_DISABLE"] = "1"  # a job need not have a compiler
if not hasattr(torch.distributed, "set_timeout"):  # PyTorch 2.13; the image has 2.14
    torch.distributed.set_timeout = lambda *_: None
