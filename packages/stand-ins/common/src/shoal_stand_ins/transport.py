"""Combines lists of numpy arrays over all ranks with MPI.

A large array is a message of its own, which spares copying it. The small ones of one type are one
message.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

LARGE_BYTES = 1 << 18
SPIN_S = 0.0002
NAP_S = 0.00005


def meet(communicator: Any) -> None:
    """Return when every rank of mpi4py's communicator is here; sleep if that takes long.

    MPI waits by spinning, which keeps other work from its core. On a shared core this leaves time
    to TensorFlow's threads, which prepare the next batch. On a machine with more to do than cores
    it leaves time to the very rank that is waited for. On two quiet cores it makes no difference in
    images/s.
    """
    arrived = communicator.Ibarrier()
    patience = time.perf_counter() + SPIN_S
    while not arrived.Test():
        if time.perf_counter() > patience:
            time.sleep(NAP_S)


def allreduce(communicator: Any, op: Enum, *tensors: Any) -> list[Any]:
    """Reduce the arrays element by element; all ranks get the same bits.

    `op` is a library's member AVERAGE, SUM, MIN or MAX. Integers average downwards.
    """
    arrays = [np.asarray(tensor) for tensor in tensors]
    results: list[Any] = [None] * len(arrays)
    meet(communicator)
    for message in _messages(arrays):  # the same ones in the same order on every rank
        for index, result in zip(
            message, _reduced(communicator, op, [arrays[index] for index in message]), strict=True
        ):
            results[index] = result
    return results


def broadcast(communicator: Any, root: int, *tensors: Any) -> list[Any]:
    """Return rank `root`'s arrays on every rank; they travel as one message of bytes."""
    arrays = [np.asarray(tensor) for tensor in tensors]
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


def _reduced(communicator: Any, op: Enum, arrays: list[Any]) -> list[Any]:
    from mpi4py import MPI

    operation = getattr(MPI, "SUM" if op.name == "AVERAGE" else op.name)
    parts = [np.ascontiguousarray(array.reshape(-1), _wire_type(array.dtype)) for array in arrays]
    sent = parts[0] if len(parts) == 1 else np.concatenate(parts)
    received = np.empty_like(sent)  # what came in is the framework's, and stays as it is
    communicator.Allreduce(sent, received, op=operation)
    if op.name == "AVERAGE":
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


class NoneCompressor:
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Return the tensor to send, and what decompress needs to know."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, _context: Any) -> Any:
        """Return the received tensor in its own type."""
        return tensor


@dataclass(frozen=True)
class FP16Compressor:
    """Sends floating point tensors as float16.

    `is_floating` is the name by which the framework's types tell that they are, `cast` converts.
    """

    half: Any
    is_floating: str
    cast: Callable[[Any, Any], Any]

    def compress(self, tensor: Any) -> tuple[Any, Any]:
        """Return the tensor to send, and its own type if it is floating point."""
        if getattr(tensor.dtype, self.is_floating):
            return self.cast(tensor, self.half), tensor.dtype
        return tensor, None

    def decompress(self, tensor: Any, context: Any) -> Any:
        """Return the received tensor in its own type."""
        return tensor if context is None else self.cast(tensor, context)
