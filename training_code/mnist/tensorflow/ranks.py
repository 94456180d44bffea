"""One process per device, as Horovod and SageMaker's data parallel library have it.

The recipe that both libraries document: one device per rank, gradients averaged by
DistributedGradientTape, equal first weights by broadcast_variables, other values averaged by a
reduction over all ranks.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from train import Alone


class Ranks(Alone):
    """This process among the ranks of a library; `average` is for what are no gradients."""

    def __init__(self, name: str, library: Any, average: Callable[[Any], Any]) -> None:
        library.init()
        self.name, self._library, self._average = name, library, average
        self.rank, self.processes = library.rank(), library.size()
        self.replicas = self.processes
        # Before TensorFlow touches a device: the GPU of this rank, or its share of the cores.
        gpus = tf.config.list_physical_devices("GPU")
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, True)
        if gpus:
            tf.config.set_visible_devices(gpus[library.local_rank()], "GPU")
        else:
            cores = max(1, (os.cpu_count() or 1) // library.local_size())
            tf.config.threading.set_intra_op_parallelism_threads(cores)

    def gradients(self, tape: tf.GradientTape, loss: tf.Tensor, weights: Any) -> Any:
        return self._library.DistributedGradientTape(tape).gradient(loss, weights)

    def step(self, replica_step: Callable[..., Any], network: Any, optimizer: Any) -> Any:
        @tf.function
        def step(images: tf.Tensor, labels: tf.Tensor, first: bool) -> tf.Tensor:
            loss = replica_step(images, labels)
            if first:  # after the first update, because the optimizer makes its variables there
                self._library.broadcast_variables(network.variables, root_rank=0)
                self._library.broadcast_variables(optimizer.variables(), root_rank=0)
            return self.average(loss)

        firsts = iter([True])
        return lambda images, labels: step(images, labels, next(firsts, False))

    def average(self, value: tf.Tensor) -> tf.Tensor:
        return self._average(value)
