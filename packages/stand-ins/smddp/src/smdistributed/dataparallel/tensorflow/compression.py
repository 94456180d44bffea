"""The reductions, and the forms in which gradients travel: as they are, or in 16 bits."""

from __future__ import annotations

from enum import Enum
from typing import Any

import tensorflow as tf


class ReduceOp(Enum):
    """The reductions of `allreduce`."""

    AVERAGE = "average"
    SUM = "sum"
    MIN = "min"
    MAX = "max"


class NoneCompression:
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Return the tensor to send, and what decompress needs to know."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, _context: Any) -> Any:
        """Return the received tensor in its own type."""
        return tensor


class FP16Compression:
    """Sends floating point tensors as float16."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Return the tensor to send, and its own type if that differs."""
        if tensor.dtype.is_floating and tensor.dtype != tf.float16:
            return tf.cast(tensor, tf.float16), tensor.dtype
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, context: Any) -> Any:
        """Return the received tensor in its own type."""
        return tensor if context is None else tf.cast(tensor, context)


class Compression:
    """The compressions of `allreduce`, DistributedGradientTape and DistributedOptimizer."""

    none = NoneCompression
    fp16 = FP16Compression
