"""The TensorFlow part of the stand-in: `import horovod.tensorflow as hvd`."""

from shoal_stand_ins.tensorflow.compression import Compression as Compression

from ..common import *  # noqa: F403 - the names of every part
from .collectives import allreduce as allreduce
from .collectives import broadcast as broadcast
from .collectives import broadcast_variables as broadcast_variables
from .training import DistributedGradientTape as DistributedGradientTape
from .training import DistributedOptimizer as DistributedOptimizer
