"""Horovod's reductions, and how its functions choose one from `average` and `op`."""

from __future__ import annotations

from enum import Enum

from .errors import UnsupportedError


class ReduceOp(Enum):
    """Horovod's reductions; Adasum is refused where it is used."""

    AVERAGE = "Average"
    SUM = "Sum"
    ADASUM = "Adasum"
    MIN = "Min"
    MAX = "Max"


Average = ReduceOp.AVERAGE
Sum = ReduceOp.SUM
Adasum = ReduceOp.ADASUM
Min = ReduceOp.MIN
Max = ReduceOp.MAX


def choose(op: ReduceOp | None, average: bool | None = None) -> ReduceOp:
    """Return the reduction that a call asks for: `op`, else the older `average`, else Average."""
    if op is not None and average is not None:
        raise ValueError("The op parameter supersedes average. Please provide only one of them.")
    if op is ReduceOp.ADASUM:
        raise UnsupportedError("horovod-local has no Adasum: use Average or Sum")
    if op is not None:
        return op
    return ReduceOp.SUM if average is False else ReduceOp.AVERAGE
