"""Train a digit classifier on MNIST with asynchronous parameter servers.

    TF_CONFIG='{"cluster": {"master": ["algo-1:2222"],
                            "ps": ["algo-1:2223", "algo-2:2223", "algo-3:2223"],
                            "worker": ["algo-2:2222", "algo-3:2222"]},
                "task": {"type": "worker", "index": 0}}' \\
        python train_parameter_server.py ...        (SageMaker's toolkit, once per host)

The toolkit also starts a parameter server on each host. Only the chief runs the loop of train.py.
Its variables lie on the parameter servers, and it schedules each step on a worker that is free. A
worker reads the variables, computes and updates them without waiting for the others, so no two runs
are equal. Workers read their own copies of the files. Workers and servers end when the chief has.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
from data import Digits, shuffled_records
from run import Run, parse_options
from train import Alone, main

ROLES = {"master": "chief"}
"""The toolkit writes the role of tf.estimator; tf.distribute calls the same task the chief."""
PARTS = {"chiefs": "chief", "parameter_servers": "ps", "workers": "worker"}
"""What each job of the cluster is called in the metrics."""
START_TIMEOUT_S = 600
POLL_S = 0.5
REFUSALS = 3
"""Polls in a row that find nobody listening, before a task counts as gone."""


class Chief(Alone):
    """The task that schedules steps on workers; one update is one worker's batch."""

    name = "parameter_server"
    deterministic = False
    # It reads and writes the checkpoint itself; TensorFlow's default is the disk of each server.
    io_device = "/job:chief/replica:0/task:0/device:CPU:0"

    def __init__(self, resolver: tf.distribute.cluster_resolver.ClusterResolver) -> None:
        spec = resolver.cluster_spec()
        for address in (*spec.job_tasks("ps"), *spec.job_tasks("worker")):
            wait_for(address)
        self._tasks = {name: spec.num_tasks(job) for name, job in PARTS.items()}
        self._strategy = tf.distribute.ParameterServerStrategy(resolver)
        self.scope = self._strategy.scope  # in which variables lie on the parameter servers
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(self._strategy)
        self._iterator: Any = None

    @property
    def parts(self) -> dict[str, int]:
        return {"processes": sum(self._tasks.values()), **self._tasks}

    def batches(self, digits: Digits, run: Run, epoch: int, done: int) -> Any:
        if self._iterator is None:  # the workers' own batches, which never end
            dataset = self._coordinator.create_per_worker_dataset(lambda: shuffled_records(run))
            self._iterator = iter(dataset)
        return itertools.repeat((self._iterator,), run.steps_per_epoch - done)

    def step(self, replica_step: Callable[..., Any], network: Any, optimizer: Any) -> Any:
        @tf.function
        def step(iterator: Any) -> tf.Tensor:
            loss = self._strategy.run(replica_step, next(iterator))
            return self._strategy.reduce(tf.distribute.ReduceOp.SUM, loss, axis=None)

        with self.scope():
            build(optimizer, network.trainable_variables)
        return lambda iterator: self._coordinator.schedule(step, args=(iterator,))

    def loss(self, value: Any) -> float:
        self._coordinator.join()  # all steps that are scheduled
        return float(value.fetch())


def build(optimizer: Any, variables: Any) -> None:
    """Make the optimizer's variables before its first step.

    Optimizers of TensorFlow before 2.11 have no build(), only what their own first step calls.
    """
    if hasattr(optimizer, "build"):
        optimizer.build(variables)
    else:
        optimizer._create_all_weights(variables)


def resolver_of(environ: Mapping[str, str]) -> tf.distribute.cluster_resolver.ClusterResolver:
    """Return the cluster of TF_CONFIG and this process's task in it. Raise ValueError."""
    if "TF_CONFIG" not in environ:
        raise ValueError(
            "TF_CONFIG is not set: the toolkit starts parameter servers only in jobs of two or more"
            " instances"
        )
    config = json.loads(environ["TF_CONFIG"])
    cluster = {ROLES.get(role, role): addresses for role, addresses in config["cluster"].items()}
    task = config["task"]
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster),
        task_type=ROLES.get(task["type"], task["type"]),
        task_id=task["index"],
        rpc_layer="grpc",
    )


def serve(resolver: tf.distribute.cluster_resolver.ClusterResolver) -> None:
    """Run a worker or a parameter server until the chief's process is gone.

    TensorFlow's servers do not end by themselves. SIGTERM, which all hosts of a job get, does not
    end them either: the chief needs them for its last checkpoint.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    spec = resolver.cluster_spec()
    # Operations that wait for another server hold a thread of this pool.
    threads = max(4, os.cpu_count() or 1)
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=threads)
    task = resolver.task_type, resolver.task_id
    server = tf.distribute.Server(spec, *task, protocol=resolver.rpc_layer, config=config)
    chief = spec.task_address("chief", 0)
    wait_for(chief)
    refusals = 0
    while refusals < REFUSALS:
        time.sleep(POLL_S)
        refusals = 0 if listens(chief) else refusals + 1
    del server


def wait_for(address: str) -> None:
    """Return when something listens at host:port. Raise TimeoutError."""
    deadline_at = time.monotonic() + START_TIMEOUT_S
    while not listens(address):
        if time.monotonic() > deadline_at:
            raise TimeoutError(f"nothing listens at {address}")
        time.sleep(POLL_S)


def listens(address: str) -> bool:
    """Return whether something listens at host:port."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    parse_options(sys.argv[1:], os.environ)  # a wrong option is an error in every task
    resolver = resolver_of(os.environ)
    if resolver.task_type == "chief":
        main(lambda: Chief(resolver))
    else:
        serve(resolver)
