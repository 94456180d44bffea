"""The devices and cores that a process uses; call these before TensorFlow touches any."""

from __future__ import annotations

import os

import tensorflow as tf


def pin(local_rank: int, local_size: int) -> None:
    """Use the one GPU that belongs to this rank of the host.

    Without GPUs, use this rank's share of the cores.
    """
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    if gpus:
        tf.config.set_visible_devices(gpus[local_rank], "GPU")
    else:
        tf.config.threading.set_intra_op_parallelism_threads(
            max(1, (os.cpu_count() or 1) // local_size)
        )


def replicas(without_gpus: int) -> list[str]:
    """Return the GPUs of this host.

    Without any, return as many logical devices, which share the CPU.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        return [f"GPU:{index}" for index in range(len(gpus))]
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * without_gpus
    )
    return [f"CPU:{index}" for index in range(without_gpus)]
