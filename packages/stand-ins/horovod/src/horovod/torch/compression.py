"""How gradients travel: as they are, or in 16 bits."""

from __future__ import annotations

from typing import Any

import torch
from shoal_stand_ins.compression import NoneCompressor


class FP16Compressor:
    """Sends floating point tensors as float16."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Return the tensor to send, and its own type if it is floating point."""
        return (
            (tensor.to(torch.float16), tensor.dtype)
            if tensor.is_floating_point()
            else (tensor, None)
        )

    @staticmethod
    def decompress(tensor: Any, context: Any) -> Any:
        """Return the received tensor in its own type."""
        return tensor if context is None else tensor.to(context)


class Compression:
    """The values that `compression` takes."""

    none = NoneCompressor
    fp16 = FP16Compressor
