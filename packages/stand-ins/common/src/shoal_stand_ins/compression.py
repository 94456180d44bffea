"""The compression that needs no framework; each framework's module adds its 16 bit one."""

from __future__ import annotations

from typing import Any


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
