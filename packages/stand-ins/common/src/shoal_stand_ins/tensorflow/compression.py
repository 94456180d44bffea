"""How gradients travel: as they are, or in 16 bits."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ..compression import NoneCompressor


class FP16Compressor:
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
    """The values that `compression` takes."""

    none = NoneCompressor
    fp16 = FP16Compressor
