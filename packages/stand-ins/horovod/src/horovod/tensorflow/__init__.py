"""The TensorFlow part of the stand-in: `import horovod.tensorflow as hvd`."""

from shoal_stand_ins.tensorflow.training import Compression as Compression

from horovod.tensorflow.training import DistributedGradientTape as DistributedGradientTape
from horovod.tensorflow.training import DistributedOptimizer as DistributedOptimizer
from horovod.tensorflow.training import allreduce as allreduce
from horovod.tensorflow.training import broadcast as broadcast
from horovod.tensorflow.training import broadcast_variables as broadcast_variables

from ..common import *  # noqa: F403 - the names of every part
