"""The Keras part of the stand-in: `import horovod.tensorflow.keras as hvd`."""

from typing import Any

import tensorflow as tf
from shoal_stand_ins.tensorflow.training import Compression as Compression

from horovod.tensorflow.training import allreduce as allreduce
from horovod.tensorflow.training import broadcast as broadcast

from ...common import *  # noqa: F403 - the names of every part
from ...common import Average, ReduceOp
from .. import training
from . import callbacks as callbacks


def DistributedOptimizer(  # noqa: N802 - Horovod's name
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = True,
    op: ReduceOp = Average,
) -> Any:
    """Return the same Keras optimizer, which reduces gradients over all ranks before it applies
    them.

    Devices are Horovod's and change nothing: there are only CPUs. Sparse gradients are reduced as
    dense ones.
    """
    del device_dense, device_sparse, sparse_as_dense
    return training.DistributedOptimizer(optimizer, name, compression, op)


def load_model(
    filepath: str,
    custom_optimizers: Any = None,
    custom_objects: Any = None,
    compression: Any = Compression.none,
) -> Any:
    """Return the saved model, with its optimizer wrapped as by DistributedOptimizer."""
    known = {each.__name__: each for each in custom_optimizers or ()} | dict(custom_objects or {})
    model = tf.keras.models.load_model(filepath, custom_objects=known)
    DistributedOptimizer(model.optimizer, compression=compression)
    return model
