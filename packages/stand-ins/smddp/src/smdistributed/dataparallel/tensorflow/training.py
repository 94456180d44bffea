"""The gradient tape, the optimizer and the session hook that a training script wraps."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import tensorflow as tf

from ..exceptions import SMDDPConfigurationError, SMDDPUnsupportedError
from .collectives import allreduce_all, assign_broadcast, require_average
from .compression import Compression, ReduceOp


class _Reduction:
    """A way to combine gradients; making one checks the arguments."""

    def __init__(
        self,
        caller: str,
        devices: tuple[str, str],
        compression: Any,
        sparse_as_dense: bool,
        op: ReduceOp | None,
    ) -> None:
        if any(devices):
            raise SMDDPUnsupportedError(
                f"smddp's {caller} does not support device_dense and device_sparse"
            )
        require_average(caller, op)
        self._compression = compression
        self._sparse_as_dense = sparse_as_dense
        self._op = op

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator, unused-ignore] # untyped where TensorFlow is not installed
    def __call__(self, gradients: Any) -> Any:
        """Reduce all gradients in one operation; None (not connected) stays None."""
        leaves = tf.nest.flatten(gradients)
        present = [index for index, leaf in enumerate(leaves) if leaf is not None]
        dense = [self._dense(leaves[index]) for index in present]
        for index, reduced in zip(
            present, allreduce_all(dense, self._compression, self._op), strict=True
        ):
            leaves[index] = reduced
        return tf.nest.pack_sequence_as(gradients, leaves)

    def _dense(self, gradient: Any) -> Any:
        if isinstance(gradient, tf.IndexedSlices) and not self._sparse_as_dense:
            raise SMDDPUnsupportedError(
                "smddp reduces dense gradients only: this one is sparse, pass sparse_as_dense=True"
            )
        return tf.convert_to_tensor(gradient)


class DistributedGradientTape:
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
        self._tape = gradtape
        self._reduce = _Reduction(
            "DistributedGradientTape",
            (device_dense, device_sparse),
            compression,
            sparse_as_dense,
            op,
        )

    def gradient(
        self, target: Any, sources: Any, output_gradients: Any = None, **options: Any
    ) -> Any:
        """Return the gradient of `target`, averaged over all ranks.

        It has the structure of `sources`.
        """
        return self._reduce(self._tape.gradient(target, sources, output_gradients, **options))

    def __enter__(self) -> DistributedGradientTape:
        self._tape.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._tape.__exit__(kind, error, traceback)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tape, name)


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
    reduction = _Reduction(
        "DistributedOptimizer", (device_dense, device_sparse), compression, sparse_as_dense, op
    )
    own = type(optimizer)
    # The class keeps its name, so a saved model loads where this package is not installed.
    optimizer.__class__ = type(
        own.__name__, (own,), {"__module__": own.__module__, **_overrides(own, reduction)}
    )
    return optimizer


def _overrides(own: Any, reduction: _Reduction) -> dict[str, Any]:
    """Return the method that all gradients pass, with the reduction in front."""
    if issubclass(own, tf.compat.v1.train.Optimizer):

        def compute_gradients(self: Any, *arguments: Any, **options: Any) -> Any:
            return _reduce_pairs(reduction, own.compute_gradients(self, *arguments, **options))

        return {"compute_gradients": compute_gradients}
    if hasattr(own, "apply"):  # Keras 3: apply_gradients calls it

        def apply(self: Any, grads: Any, *arguments: Any, **options: Any) -> Any:
            return own.apply(self, reduction(list(grads)), *arguments, **options)

        return {"apply": apply}

    def apply_gradients(self: Any, grads_and_vars: Any, *arguments: Any, **options: Any) -> Any:
        return own.apply_gradients(
            self, _reduce_pairs(reduction, grads_and_vars), *arguments, **options
        )

    return {"apply_gradients": apply_gradients}


def _reduce_pairs(reduction: _Reduction, pairs: Any) -> list[Any]:
    pairs = list(pairs)
    gradients = reduction([gradient for gradient, _ in pairs])
    return [(gradient, variable) for gradient, (_, variable) in zip(gradients, pairs, strict=True)]


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc, unused-ignore]
    """Gives every rank rank `root_rank`'s variables when a MonitoredTrainingSession starts."""

    def __init__(self, root_rank: int) -> None:
        super().__init__()
        self._root_rank = root_rank
        self._operation: Any = None

    def begin(self) -> None:
        """Add the broadcast to the graph, which is finished after this."""
        self._operation = tf.group(
            *assign_broadcast(tf.compat.v1.global_variables(), self._root_rank)
        )

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Run it in the fresh or restored session."""
        session.run(self._operation)
