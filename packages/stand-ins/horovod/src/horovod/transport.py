"""Combines lists of numpy arrays over all ranks with MPI, in one message for each type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .reduction import ReduceOp


def allreduce(communicator: Any, op: ReduceOp, arrays: Sequence[Any]) -> list[Any]:
    """Reduce the arrays element by element; all ranks get the same bits.

    Integers average downwards.
    """
    arrays = [np.asarray(array) for array in arrays]
    results: list[Any] = [None] * len(arrays)
    for wire in sorted(
        {_wire_type(array.dtype) for array in arrays}, key=str
    ):  # the same order on every rank
        members = [index for index, array in enumerate(arrays) if _wire_type(array.dtype) == wire]
        for index, result in zip(
            members,
            _reduce_fused(communicator, op, [arrays[index] for index in members], wire),
            strict=True,
        ):
            results[index] = result
    return results


def broadcast(communicator: Any, root: int, arrays: Sequence[Any]) -> list[Any]:
    """Return rank `root`'s arrays on every rank; they travel as one message of bytes."""
    arrays = [np.asarray(array) for array in arrays]
    parts = [np.array(array, order="C").reshape(-1).view(np.uint8) for array in arrays]
    fused = np.concatenate(parts)
    communicator.Bcast(fused, root=root)
    pieces = np.split(fused, np.cumsum([part.size for part in parts])[:-1])
    return [
        piece.copy().view(array.dtype).reshape(array.shape)
        for piece, array in zip(pieces, arrays, strict=True)
    ]


def _reduce_fused(communicator: Any, op: ReduceOp, arrays: list[Any], wire: Any) -> list[Any]:
    from mpi4py import MPI

    operation = {ReduceOp.MIN: MPI.MIN, ReduceOp.MAX: MPI.MAX}.get(op, MPI.SUM)
    fused = np.concatenate([array.reshape(-1).astype(wire, copy=False) for array in arrays])
    communicator.Allreduce(MPI.IN_PLACE, fused, op=operation)
    if op is ReduceOp.AVERAGE:
        divide = np.true_divide if fused.dtype.kind in "fc" else np.floor_divide
        divide(fused, communicator.Get_size(), out=fused)
    pieces = np.split(fused, np.cumsum([array.size for array in arrays])[:-1])
    return [
        piece.astype(array.dtype).reshape(array.shape)
        for piece, array in zip(pieces, arrays, strict=True)
    ]


def _wire_type(dtype: Any) -> Any:
    """Return the type in which arrays travel and are summed.

    MPI has no 16 bit floating point types (bfloat16 is numpy's kind V): they become float32.
    """
    return np.dtype(np.float32) if dtype.itemsize == 2 and dtype.kind in "fV" else dtype
