"""For `model.fit`: AWS documents no support for it, but its published scripts import this
module.
"""

from .. import Compression as Compression
from .. import DistributedOptimizer as DistributedOptimizer
from .. import ReduceOp as ReduceOp
from .. import broadcast as broadcast
from .. import broadcast_variables as broadcast_variables
from .. import init as init
from .. import local_rank as local_rank
from .. import local_size as local_size
from .. import rank as rank
from .. import shutdown as shutdown
from .. import size as size
from . import callbacks as callbacks
