"""The cluster of TF_CONFIG, and waiting for its tasks.

The training toolkit writes TF_CONFIG for tf.estimator; tf.distribute needs other names.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Mapping

import tensorflow as tf

# The toolkit writes the role of tf.estimator; tf.distribute calls the same task the chief.
ROLES = {"master": "chief"}

START_TIMEOUT_S = 600
CONNECT_TIMEOUT_S = 2
POLL_S = 0.5
REFUSALS = 3
MIN_THREADS = 4


def read(environ: Mapping[str, str]) -> tf.distribute.cluster_resolver.ClusterResolver:
    """Return the cluster and this process's task in it.

    Raise ValueError if there is none, or one without parameter servers.
    """
    if "TF_CONFIG" not in environ:
        raise ValueError(
            "TF_CONFIG is not set: the toolkit starts parameter servers only in jobs of two or more"
            " instances"
        )
    config = json.loads(environ["TF_CONFIG"])
    cluster = {ROLES.get(role, role): addresses for role, addresses in config["cluster"].items()}
    missing = sorted({"chief", "ps", "worker"} - set(cluster))
    if missing:
        raise ValueError(
            f"TF_CONFIG has no {missing[0]}: parameter servers need a chief, one or more ps and one"
            " or more workers"
        )
    role = config["task"]["type"]
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster),
        task_type=ROLES.get(role, role),
        task_id=config["task"]["index"],
        rpc_layer="grpc",
    )


def wait_for_servers(spec: tf.train.ClusterSpec) -> None:
    """Return when every parameter server and worker listens.

    Raise TimeoutError that names one that does not.
    """
    deadline_at = time.monotonic() + START_TIMEOUT_S
    for role in ("ps", "worker"):
        for address in spec.job_tasks(role):
            wait_until_up(address, deadline_at)


def serve(resolver: tf.distribute.cluster_resolver.ClusterResolver) -> None:
    """Run a worker or a parameter server until the chief's process is gone.

    TensorFlow's servers do not end by themselves. SIGTERM, which all hosts of a job get, does not
    end them either: the chief needs them for its last checkpoint.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    spec = resolver.cluster_spec()
    # Operations that wait for another server hold a thread of this pool, which has as many as the
    # machine has cores.
    config = tf.compat.v1.ConfigProto(
        inter_op_parallelism_threads=max(MIN_THREADS, os.cpu_count() or 1)
    )
    server = tf.distribute.Server(
        spec, resolver.task_type, resolver.task_id, protocol=resolver.rpc_layer, config=config
    )
    wait_until_up(spec.task_address("chief", 0), time.monotonic() + START_TIMEOUT_S)
    wait_until_down(spec.task_address("chief", 0))
    del server


def wait_until_up(address: str, deadline_at: float) -> None:
    """Return when something listens at host:port. Raise TimeoutError."""
    while not _listens(address):
        if time.monotonic() > deadline_at:
            raise TimeoutError(f"nothing listens at {address}")
        time.sleep(POLL_S)


def wait_until_down(address: str) -> None:
    """Return when nothing has listened at host:port for a few polls."""
    refusals = 0
    while refusals < REFUSALS:
        time.sleep(POLL_S)
        refusals = 0 if _listens(address) else refusals + 1


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT_S).close()
    except OSError:
        return False
    return True
