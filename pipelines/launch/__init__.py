"""The launch contract: how the training section of an environment becomes images and hyperparameters, checked against AWS's tables."""

from pipelines.launch.contract import Contract, SmddpAllGather, SmddpAllReduce, Torchrun
from pipelines.launch.resolve import Launch, resolve

__all__ = ["Contract", "Launch", "SmddpAllGather", "SmddpAllReduce", "Torchrun", "resolve"]
