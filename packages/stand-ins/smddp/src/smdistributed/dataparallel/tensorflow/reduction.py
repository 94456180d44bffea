"""The reductions of `allreduce`."""

from __future__ import annotations

from enum import Enum


class ReduceOp(Enum):
    """The reductions of `allreduce`."""

    AVERAGE = "average"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
