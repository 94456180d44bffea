"""For `model.fit`: AWS documents no support for it, but its published scripts import this
module.
"""

from .. import (
    Compression,
    DistributedOptimizer,
    ReduceOp,
    broadcast,
    broadcast_variables,
    init,
    local_rank,
    local_size,
    rank,
    shutdown,
    size,
)
from . import callbacks

__all__ = [
    "Compression",
    "DistributedOptimizer",
    "ReduceOp",
    "broadcast",
    "broadcast_variables",
    "callbacks",
    "init",
    "local_rank",
    "local_size",
    "rank",
    "shutdown",
    "size",
]
