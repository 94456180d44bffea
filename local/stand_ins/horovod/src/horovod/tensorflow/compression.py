"""How gradients travel: as they are, or in 16 bits."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class NoneCompressor:
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """The tensor to send, and what decompress needs to know."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, _context: Any) -> Any:
        """The received tensor in its own type."""
        return tensor


class FP16Compressor:
    """Sends floating point tensors as float16."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """The tensor to send, and its own type if it is floating point."""
        return (
            (tf.cast(tensor, tf.float16), tensor.dtype)
            if tensor.dtype.is_floating
            else (tensor, None)
        )

    @staticmethod
    def decompress(tensor: Any, context: Any) -> Any:
        """The received tensor in its own type."""
        return tensor if context is None else tf.cast(tensor, context)


class Compression:
    """What `compression` may be."""

    none = NoneCompressor
    fp16 = FP16Compressor
