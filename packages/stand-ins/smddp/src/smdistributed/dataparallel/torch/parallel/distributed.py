"""DistributedDataParallel of the first API (1.0 to 1.3).

It is torch's own, with the arguments that AWS documented.
"""

from __future__ import annotations

from typing import Any

from torch.nn.parallel import DistributedDataParallel as TorchDistributedDataParallel

from ...exceptions import SMDDPUnsupportedError
from .. import distributed


class DistributedDataParallel(TorchDistributedDataParallel):  # type: ignore[misc, unused-ignore] # untyped where torch is not installed
    """Averages gradients over all ranks during backward(); init_process_group must come first."""

    def __init__(
        self,
        module: Any,
        device_ids: list[int] | None = None,
        output_device: int | None = None,
        broadcast_buffers: bool = True,
        process_group: object | None = None,
        bucket_cap_mb: int | None = None,
        *,
        find_unused_parameters: bool = False,
        **unsupported: Any,
    ) -> None:
        """Take the arguments of AWS's reference, and `find_unused_parameters`.

        The reference does not list that one, but AWS's published scripts pass it.
        """
        distributed.require_world(process_group)
        if "gradient_accumulation_steps" in unsupported:
            raise SMDDPUnsupportedError(
                "smddp does not support gradient_accumulation_steps: accumulate inside `with"
                " model.no_sync():`"
            )
        if unsupported:
            raise SMDDPUnsupportedError(
                f"smddp's DistributedDataParallel does not have {', '.join(sorted(unsupported))}"
            )
        super().__init__(
            module,
            device_ids=device_ids,
            output_device=output_device,
            broadcast_buffers=broadcast_buffers,
            bucket_cap_mb=bucket_cap_mb or 25,
            find_unused_parameters=find_unused_parameters,
        )
