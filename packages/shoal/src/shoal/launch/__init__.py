"""The launch contract: how the training section of an environment becomes images and
hyperparameters, checked against AWS's tables.
"""

from shoal.launch.contract import (
    Contract,
    Horovod,
    Mirrored,
    MultiWorkerMirrored,
    ParameterServer,
    PytorchDdp,
    SingleProcess,
    SmddpAllGather,
    SmddpAllGatherByMpirun,
    SmddpAllReduce,
    Torchrun,
)
from shoal.launch.resolve import Launch, launch_of, resolve

__all__ = [
    "Contract",
    "Horovod",
    "Launch",
    "Mirrored",
    "MultiWorkerMirrored",
    "ParameterServer",
    "PytorchDdp",
    "SingleProcess",
    "SmddpAllGather",
    "SmddpAllGatherByMpirun",
    "SmddpAllReduce",
    "Torchrun",
    "launch_of",
    "resolve",
]
