"""The API that AWS documents for smdistributed.dataparallel.tensorflow, over MPI.

In strict mode, importing it raises SMDDPConfigurationError where the instance type has no smddp.
"""

import os

from shoal_stand_ins.tensorflow.training import Compression as Compression
from smdistributed.dataparallel.launch import check_instance_type, read
from smdistributed.dataparallel.tensorflow.collectives import ReduceOp as ReduceOp
from smdistributed.dataparallel.tensorflow.collectives import allreduce as allreduce
from smdistributed.dataparallel.tensorflow.collectives import broadcast as broadcast
from smdistributed.dataparallel.tensorflow.collectives import (
    broadcast_global_variables as broadcast_global_variables,
)
from smdistributed.dataparallel.tensorflow.collectives import (
    broadcast_variables as broadcast_variables,
)
from smdistributed.dataparallel.tensorflow.collectives import get_worker_comm as get_worker_comm
from smdistributed.dataparallel.tensorflow.collectives import init as init
from smdistributed.dataparallel.tensorflow.collectives import local_rank as local_rank
from smdistributed.dataparallel.tensorflow.collectives import local_size as local_size
from smdistributed.dataparallel.tensorflow.collectives import oob_allreduce as oob_allreduce
from smdistributed.dataparallel.tensorflow.collectives import overlap as overlap
from smdistributed.dataparallel.tensorflow.collectives import rank as rank
from smdistributed.dataparallel.tensorflow.collectives import shutdown as shutdown
from smdistributed.dataparallel.tensorflow.collectives import size as size
from smdistributed.dataparallel.tensorflow.training import (
    BroadcastGlobalVariablesHook as BroadcastGlobalVariablesHook,
)
from smdistributed.dataparallel.tensorflow.training import (
    DistributedGradientTape as DistributedGradientTape,
)
from smdistributed.dataparallel.tensorflow.training import (
    DistributedOptimizer as DistributedOptimizer,
)

check_instance_type(read(os.environ))
