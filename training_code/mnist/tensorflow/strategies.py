"""Strategies, each with what it does otherwise than train.py; the train_*.py start them."""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf
from train import Alone

CPU_REPLICAS = 2
POLL_S = 0.5
REFUSALS, REFUSALS_AT_START = 3, 1200
"""Polls in a row that find nobody listening, before the chief counts as gone, or as not coming."""


class Ranks(Alone):
    """One process per device, as Horovod and SageMaker's data parallel library have it.

    The recipe that both document: one device per rank, gradients averaged by
    DistributedGradientTape, equal first values by broadcast_variables, other values by `average`.
    """

    def __init__(self, options: Any, name: str, library: Any, average: Callable[..., Any]) -> None:
        self.name, self.library, self.average = name, library, average
        self.tape = library.DistributedGradientTape
        super().__init__(options)

    def join(self) -> tf.distribute.Strategy:
        self.library.init()
        self.rank, self.processes = self.library.rank(), self.library.size()
        self.parts = f"processes={self.processes} ranks={self.processes}"
        # Before TensorFlow touches a device: the GPU of this rank, or its share of the cores.
        if gpus := tf.config.list_physical_devices("GPU"):
            own = gpus[self.library.local_rank()]
            tf.config.set_visible_devices(own, "GPU")
            tf.config.experimental.set_memory_growth(own, True)
        else:
            cores = max(1, (os.cpu_count() or 1) // self.library.local_size())
            tf.config.threading.set_intra_op_parallelism_threads(cores)
        return tf.distribute.get_strategy()

    @tf.function
    def start(self) -> None:
        self.library.broadcast_variables(self.network.variables, root_rank=0)
        self.library.broadcast_variables(self.optimizer.variables(), root_rank=0)


class Mirrored(Alone):
    """Replicas in one process, on its GPUs, which TensorFlow keeps equal.

    Without GPUs logical CPU devices stand in for them, so that the same code runs.
    """

    name = "mirrored"

    def join(self) -> tf.distribute.Strategy:
        if not tf.config.list_physical_devices("GPU"):
            cpu = tf.config.list_physical_devices("CPU")[0]
            logical = [tf.config.LogicalDeviceConfiguration()] * CPU_REPLICAS
            tf.config.set_logical_device_configuration(cpu, logical)
        devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
        self.parts = f"processes=1 replicas={len(devices)}"
        return tf.distribute.MirroredStrategy([each.name for each in devices])


class MultiWorkerMirrored(Alone):
    """Replicas in one process per host, which finds the others in TF_CONFIG: {"cluster": {"worker":
    ["algo-1:8890", "algo-2:8890"]}, "task": {"type": "worker", "index": 0}}.
    """

    name = "multi_worker_mirrored"

    def join(self) -> tf.distribute.Strategy:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        resolver = strategy.cluster_resolver
        self.rank = resolver.task_id or 0  # None without TF_CONFIG
        self.processes = max(1, len(resolver.cluster_spec().as_dict().get("worker", ())))
        self.parts = f"processes={self.processes} workers={self.processes}"
        if strategy.num_replicas_in_sync != self.processes:
            self.parts += f" replicas={strategy.num_replicas_in_sync}"
        self.folder = tempfile.TemporaryDirectory()
        self.spare_dir = Path(self.folder.name)
        return strategy

    @tf.function
    def average(self, value: tf.Tensor) -> tf.Tensor:
        values = self.strategy.run(lambda: value)
        return self.strategy.reduce(tf.distribute.ReduceOp.MEAN, values, axis=None)


class ParameterServers(Alone):
    """Workers that wait for nobody, by TF_CONFIG: {"cluster": {"master": ["algo-1:2222"],
    "worker": ["algo-2:2222"], "ps": ["algo-1:2223", "algo-2:2223"]}, "task": ...}.

    Only the chief runs the loop of train.py. Its variables lie on the parameter servers, which the
    toolkit starts on each host, and it schedules each step on a free worker. That reads the
    variables, computes, and updates them without waiting for others: no two runs are equal.
    """

    name = "parameter_server"
    # The chief reads and writes the checkpoint; TensorFlow's default is the disk of each server.
    io = tf.train.CheckpointOptions("/job:chief/replica:0/task:0/device:CPU:0")

    def join(self) -> tf.distribute.Strategy:
        if "TF_CONFIG" not in os.environ:
            raise ValueError(
                "TF_CONFIG is not set: the toolkit starts parameter servers only in jobs of two or"
                " more instances"
            )
        # The toolkit writes the role of tf.estimator; tf.distribute calls the same task the chief.
        os.environ["TF_CONFIG"] = os.environ["TF_CONFIG"].replace('"master"', '"chief"')
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
        if resolver.task_type != "chief":
            serve(resolver)
            sys.exit()
        self.options.deterministic = "False"  # no two runs are equal
        strategy, spec = tf.distribute.ParameterServerStrategy(resolver), resolver.cluster_spec()
        self.coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        servers, self.workers = spec.num_tasks("ps"), spec.num_tasks("worker")
        tasks = f"chiefs=1 parameter_servers={servers} workers={self.workers}"
        self.parts = f"processes={1 + servers + self.workers} {tasks}"
        return strategy

    def start(self) -> None:
        self.iterator = iter(self.coordinator.create_per_worker_dataset(self.shuffled))

    def batches(self, epoch: int, done: int) -> Any:
        return [(self.iterator,)] * (self.steps_per_epoch - done)

    def shuffled(self) -> tf.data.Dataset:
        """Return a worker's own batches, without end; the chief sends it the digits."""
        digits = tf.data.Dataset.from_tensor_slices(self.train).shuffle(self.identity["images"])
        return digits.repeat().batch(self.batch).prefetch(1)

    def step(self, iterator: Any) -> Any:
        return self.coordinator.schedule(self.worker_step, args=(iterator,))

    @tf.function
    def worker_step(self, iterator: Any) -> tf.Tensor:
        """Train one worker with its own batch."""
        return self.strategy.run(self.replica_step, next(iterator))

    def mean(self, value: Any) -> float:
        self.coordinator.join()  # all steps that are scheduled
        return float(self.coordinator.fetch(value))


def serve(resolver: tf.distribute.cluster_resolver.ClusterResolver) -> None:
    """Run a worker or a parameter server until the chief's process is gone.

    TensorFlow's servers do not end by themselves. Nor do they by the SIGTERM that all hosts of a
    job get: the chief needs them for its last checkpoint. Raise TimeoutError if it never comes.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    spec, task = resolver.cluster_spec(), (resolver.task_type, resolver.task_id)
    # Operations that wait for another server hold a thread of this pool.
    threads = max(4, os.cpu_count() or 1)
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=threads)
    server = tf.distribute.Server(spec, *task, protocol="grpc", config=config)
    host, _, port = spec.task_address("chief", 0).rpartition(":")
    refusals, limit = 0, REFUSALS_AT_START
    while refusals < limit:
        time.sleep(POLL_S)
        try:
            socket.create_connection((host, int(port)), timeout=2).close()
            refusals, limit = 0, REFUSALS
        except OSError:
            refusals += 1
    del server
    if limit == REFUSALS_AT_START:
        raise TimeoutError(f"no chief listens at {host}:{port}")
