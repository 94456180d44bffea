"""Train a digit classifier on MNIST with tf.distribute.MirroredStrategy.

    python train_mirrored.py --train-dir mnist/train --test-dir mnist/test --model-dir model

One process has a copy of the network on each GPU of its host. Without GPUs two logical CPU devices
stand in for them, so that the same code runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from data import Digits, batches
from run import Run
from train import Alone, main

CPU_REPLICAS = 2


class Mirrored(Alone):
    """Replicas that a strategy of tf.distribute keeps equal.

    Variables are made in its scope, a step runs once per replica, apply_gradients adds the
    gradients up, and the strategy hands out the batches.
    """

    name = "mirrored"

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self.strategy, self.scope = strategy, strategy.scope
        self.replicas = self.summed = strategy.num_replicas_in_sync

    @property
    def parts(self) -> dict[str, int]:
        return {"processes": 1, "replicas": self.replicas}

    def batches(self, digits: Digits, run: Run, epoch: int, done: int) -> Any:
        return self.strategy.distribute_datasets_from_function(
            lambda context: batches(
                digits, run, epoch, done, context.input_pipeline_id, context.num_input_pipelines
            )
        )

    def step(self, replica_step: Callable[..., Any], network: Any, optimizer: Any) -> Any:
        @tf.function
        def step(*batch: tf.Tensor) -> tf.Tensor:
            losses = self.strategy.run(replica_step, batch)
            return self.strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

        return step


def devices() -> list[str]:
    """Return the GPUs of this host, or else logical devices, which share the CPU."""
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        return [f"GPU:{index}" for index in range(len(gpus))]
    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration()] * CPU_REPLICAS
    tf.config.set_logical_device_configuration(cpu, logical)
    return [f"CPU:{index}" for index in range(CPU_REPLICAS)]


if __name__ == "__main__":
    main(lambda: Mirrored(tf.distribute.MirroredStrategy(devices())))
