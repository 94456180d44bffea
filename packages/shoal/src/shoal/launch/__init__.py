"""The launch contract: how the training section of an environment becomes images and
hyperparameters, checked against AWS's tables.
"""

from shoal.launch.contract import Contract
from shoal.launch.resolve import Launch, launch_of, resolve

__all__ = ["Contract", "Launch", "launch_of", "resolve"]
