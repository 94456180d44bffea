"""The PyTorch part of the stand-in: `import horovod.torch as hvd`."""

from horovod.common import *  # noqa: F403 - the names of every part
from horovod.torch.collectives import Compression as Compression
from horovod.torch.collectives import allgather as allgather
from horovod.torch.collectives import allreduce as allreduce
from horovod.torch.collectives import allreduce_ as allreduce_
from horovod.torch.collectives import barrier as barrier
from horovod.torch.collectives import broadcast as broadcast
from horovod.torch.collectives import broadcast_ as broadcast_
from horovod.torch.collectives import broadcast_optimizer_state as broadcast_optimizer_state
from horovod.torch.collectives import broadcast_parameters as broadcast_parameters
from horovod.torch.collectives import grouped_allreduce as grouped_allreduce
from horovod.torch.optimizer import DistributedOptimizer as DistributedOptimizer
