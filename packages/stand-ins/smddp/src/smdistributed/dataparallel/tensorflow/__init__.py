"""The API that AWS documents for smdistributed.dataparallel.tensorflow, over MPI.

In strict mode, importing it raises SMDDPConfigurationError where the instance type has no smddp.
"""

import os

from shoal_stand_ins.tensorflow.compression import Compression as Compression

from ..launch import check_instance_type, read
from .collectives import ReduceOp as ReduceOp
from .collectives import allreduce as allreduce
from .collectives import broadcast as broadcast
from .collectives import broadcast_global_variables as broadcast_global_variables
from .collectives import broadcast_variables as broadcast_variables
from .collectives import oob_allreduce as oob_allreduce
from .collectives import overlap as overlap
from .job import get_worker_comm as get_worker_comm
from .job import init as init
from .job import local_rank as local_rank
from .job import local_size as local_size
from .job import rank as rank
from .job import shutdown as shutdown
from .job import size as size
from .training import BroadcastGlobalVariablesHook as BroadcastGlobalVariablesHook
from .training import DistributedGradientTape as DistributedGradientTape
from .training import DistributedOptimizer as DistributedOptimizer

check_instance_type(read(os.environ))
