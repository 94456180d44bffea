"""The PyTorch part of the stand-in: `import horovod.torch as hvd`."""

from ..common import *  # noqa: F403 - the names of every part
from .collectives import allgather as allgather
from .collectives import allreduce as allreduce
from .collectives import allreduce_ as allreduce_
from .collectives import barrier as barrier
from .collectives import broadcast as broadcast
from .collectives import broadcast_ as broadcast_
from .collectives import grouped_allreduce as grouped_allreduce
from .compression import Compression as Compression
from .optimizer import DistributedOptimizer as DistributedOptimizer
from .state import broadcast_optimizer_state as broadcast_optimizer_state
from .state import broadcast_parameters as broadcast_parameters
