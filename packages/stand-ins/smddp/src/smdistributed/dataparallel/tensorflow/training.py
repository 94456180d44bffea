"""The gradient tape, the optimizer and the session hook that a training script wraps, with the
arguments of AWS's library.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from shoal_stand_ins.tensorflow.training import Compression, GradientTape, Reduce, reduce_all, wrap
from smdistributed.dataparallel.tensorflow.collectives import (
    JOB,
    ReduceOp,
    broadcast_global_variables,
    require_average,
)

from ..exceptions import SMDDPConfigurationError, SMDDPUnsupportedError


class DistributedGradientTape(GradientTape):
    """A tf.GradientTape whose gradient() averages over all ranks."""

    def __init__(
        self,
        gradtape: Any,
        device_dense: str = "",
        device_sparse: str = "",
        compression: Any = Compression.none,
        sparse_as_dense: bool = True,
        op: ReduceOp | None = ReduceOp.AVERAGE,
    ) -> None:
        caller, devices = "DistributedGradientTape", (device_dense, device_sparse)
        super().__init__(gradtape, _reduction(caller, devices, compression, sparse_as_dense, op))


def DistributedOptimizer(  # noqa: N802 - AWS's name, and its arguments
    optimizer: Any,
    name: str | None = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = True,
    op: ReduceOp | None = ReduceOp.AVERAGE,
    bucket_cap_mb: float = 25,
) -> Any:
    """Return the same optimizer; it averages gradients over all ranks before it applies them.

    Takes optimizers of tf.compat.v1.train and of Keras. `name`, `use_locking` and the size of the
    bucket change nothing here: there are no extra variables or locks, and all gradients are one
    bucket.
    """
    del name, use_locking
    if bucket_cap_mb <= 0 or (bucket_cap_mb * 1024 * 1024) % 128:
        raise SMDDPConfigurationError(
            f"bucket_cap_mb={bucket_cap_mb}: its bytes must be a multiple of 128"
        )
    caller, devices = "DistributedOptimizer", (device_dense, device_sparse)
    return wrap(optimizer, _reduction(caller, devices, compression, sparse_as_dense, op))


def _reduction(
    caller: str,
    devices: tuple[str, str],
    compression: Any,
    sparse_as_dense: bool,
    op: ReduceOp | None,
) -> Reduce:
    """Check the arguments. Return what combines gradients."""
    if any(devices):
        raise SMDDPUnsupportedError(
            f"smddp's {caller} does not support device_dense and device_sparse"
        )
    require_average(caller, op)

    def reduce(gradients: Sequence[Any]) -> Any:
        if not sparse_as_dense and any(
            isinstance(gradient, tf.IndexedSlices) for gradient in gradients
        ):
            raise SMDDPUnsupportedError(
                "smddp reduces dense gradients only: this one is sparse, pass sparse_as_dense=True"
            )
        return reduce_all(JOB, gradients, op or ReduceOp.AVERAGE, compression)

    return reduce


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc, unused-ignore] # untyped where TensorFlow is not installed
    """Gives every rank rank `root_rank`'s variables when a MonitoredTrainingSession starts."""

    def __init__(self, root_rank: int) -> None:
        super().__init__()
        self._root_rank = root_rank
        self._operation: Any = None

    def begin(self) -> None:
        """Add the broadcast to the graph, which is finished after this."""
        self._operation = broadcast_global_variables(self._root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Run it in the fresh or restored session."""
        session.run(self._operation)
