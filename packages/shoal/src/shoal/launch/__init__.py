"""The launch contract: how a training section becomes images and hyperparameters."""

from shoal.launch.contract import Contract
from shoal.launch.resolve import Launch, launch_of, resolve

__all__ = ["Contract", "Launch", "launch_of", "resolve"]
