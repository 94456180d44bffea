"""Lets torchtitan 0.3.0 run on CPUs. It knows accelerators alone. Import it before torchtitan."""

import os
import sys
from types import ModuleType, SimpleNamespace

import torch
from torch.distributed.fsdp import FSDPModule

set_factor = FSDPModule.set_gradient_divide_factor


def set_factor_of_sums(module: FSDPModule, factor: float) -> None:
    """Let FSDP divide what it has summed; gloo has no sum with a factor."""
    module.set_force_sum_reduction_for_comms(True)
    set_factor(module, factor)


if not torch.cuda.is_available():
    properties = SimpleNamespace(total_memory=1)
    torch.cpu.get_device_name = lambda _: "CPU"
    torch.cpu.get_device_properties = lambda _: properties
    torch.cpu.current_device = lambda: 0
    torch.cpu.memory_stats = lambda _: {}
    torch.cpu.empty_cache = torch.cpu.reset_peak_memory_stats = lambda: None
    torch._utils._get_available_device_type = lambda: "cpu"
    FSDPModule.set_gradient_divide_factor = set_factor_of_sums
    # of experts, in Triton, which PyTorch for CPUs lacks
    kernels = ModuleType("torchtitan.distributed.minimal_async_ep.kernels")
    vars(kernels)["__getattr__"] = lambda _: None
    sys.modules[kernels.__name__] = kernels
    os.environ["TORCH_COMPILE_DISABLE"] = "1"  # a job need not have a compiler
if not hasattr(torch.distributed, "set_timeout"):  # PyTorch 2.13; the image has 2.14
    torch.distributed.set_timeout = lambda *_: None
