"""Combines lists of numpy arrays over all ranks with MPI.

A large array is a message of its own, which spares copying it. The small ones of one type are one
message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..meeting import meet
from .compression import ReduceOp

LARGE_BYTES = 1 << 18


def allreduce(communicator: Any, op: ReduceOp, arrays: Sequence[Any]) -> list[Any]:
    """Reduce the arrays element by element; all ranks get the same bits.

    Integers average downwards.
    """
    arrays = [np.asarray(array) for array in arrays]
    results: list[Any] = [None] * len(arrays)
    meet(communicator)
    for message in _messages(arrays):  # the same ones in the same order on every rank
        for index, result in zip(
            message, _reduced(communicator, op, [arrays[index] for index in message]), strict=True
        ):
            results[index] = result
    return results


def broadcast(communicator: Any, root: int, arrays: Sequence[Any]) -> list[Any]:
    """Return rank `root`'s arrays on every rank; they travel as one message of bytes."""
    arrays = [np.asarray(array) for array in arrays]
    parts = [np.array(array, order="C").reshape(-1).view(np.uint8) for array in arrays]
    fused = np.concatenate(parts)
    communicator.Bcast(fused, root=root)
    ends = np.cumsum([part.size for part in parts])
    pieces = np.split(fused, ends[:-1])
    return [
        piece.copy().view(array.dtype).reshape(array.shape)
        for piece, array in zip(pieces, arrays, strict=True)
    ]


def _messages(arrays: Sequence[Any]) -> list[list[int]]:
    """Return the indices of the arrays that travel together."""
    small: dict[str, list[int]] = {}
    for index, array in enumerate(arrays):
        if array.nbytes < LARGE_BYTES:
            small.setdefault(str(_wire_type(array.dtype)), []).append(index)
    return [
        *([index] for index, array in enumerate(arrays) if array.nbytes >= LARGE_BYTES),
        *(small[wire] for wire in sorted(small)),
    ]


def _reduced(communicator: Any, op: ReduceOp, arrays: list[Any]) -> list[Any]:
    from mpi4py import MPI

    operation = {
        ReduceOp.AVERAGE: MPI.SUM,
        ReduceOp.SUM: MPI.SUM,
        ReduceOp.MIN: MPI.MIN,
        ReduceOp.MAX: MPI.MAX,
    }[op]
    parts = [np.ascontiguousarray(array.reshape(-1), _wire_type(array.dtype)) for array in arrays]
    sent = parts[0] if len(parts) == 1 else np.concatenate(parts)
    received = np.empty_like(sent)  # what came in is TensorFlow's, and stays as it is
    communicator.Allreduce(sent, received, op=operation)
    if op is ReduceOp.AVERAGE:
        divide = np.true_divide if received.dtype.kind in "fc" else np.floor_divide
        divide(received, communicator.Get_size(), out=received)
    pieces = np.split(received, np.cumsum([array.size for array in arrays])[:-1])
    return [
        piece.astype(array.dtype, copy=False).reshape(array.shape)
        for piece, array in zip(pieces, arrays, strict=True)
    ]


def _wire_type(dtype: Any) -> Any:
    """Return the type in which arrays travel and are summed.

    MPI has no 16 bit floating point types (bfloat16 is numpy's kind V): they become float32.
    """
    return np.dtype(np.float32) if dtype.itemsize == 2 and dtype.kind in "fV" else dtype
